//! Who may come in: the one browser that was opened from the terminal.
//!
//! A page of another site can make a browser send requests to loopback, and other programs of this machine can connect too.
//! So every request must name us as its host (a name that was rebound to 127.0.0.1 does not), come from our own pages, and
//! carry the cookie that was given for a token that works once. What writes carries a second secret from the page as well.

use http::{
    HeaderMap, Method,
    header::{COOKIE, HOST, ORIGIN},
};
use parking_lot::Mutex;
use subtle::ConstantTimeEq as _;

/// What a browser tells of where a request comes from.
const FETCH_SITE: &str = "sec-fetch-site";
const FETCH_MODE: &str = "sec-fetch-mode";

/// What only our own pages lead to: what an act would do, what one has done, and the streams of pages.
const INNER: [&str; 3] = ["/act", "/done", "/live"];
/// The port that browsers leave out of addresses.
const USUAL_PORT: u16 = 80;

/// The secrets of one dashboard.
#[derive(Debug)]
pub struct Door {
    host: String,
    /// With the port in its name: cookies do not know ports, and two dashboards must not take each other's.
    cookie: String,
    session: Secret,
    form: Secret,
    /// What the next browser comes in with.
    token: Mutex<Option<Secret>>,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// It names another host.
    #[error("this is not the address that the dashboard has: use the one that it has printed")]
    Host,
    /// It comes from another site.
    #[error("the request comes from another page than the dashboard's own")]
    Origin,
    /// It has no cookie, or not ours.
    #[error(
        "this browser has not been let in: open the link that kubectl fleet dashboard prints (press Enter there for a new one)"
    )]
    Session,
    /// The token was used before, or was never ours.
    #[error("this link has been used before: press Enter in the terminal where the dashboard runs for a new one")]
    Token,
    /// It would write, and does not come from a form of ours.
    #[error("the form is not from this dashboard, or from one that has ended: go back, reload the page and try again")]
    Form,
}

/// A secret: 256 random bits in hexadecimal.
#[derive(Clone)]
struct Secret(String);

impl Secret {
    fn new() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or_default();
        let digits = bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
        Ok(Self(digits.collect()))
    }

    /// In a time that does not tell how much of it was right.
    fn is(&self, said: &str) -> bool {
        self.0.as_bytes().ct_eq(said.as_bytes()).into()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(secret)")
    }
}

impl Door {
    /// A door on this port, without any token yet.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn new(port: u16) -> Result<Self, getrandom::Error> {
        Ok(Self {
            // Not "localhost": that may be another address, at which somebody else's program may listen.
            host: match port {
                USUAL_PORT => "127.0.0.1".to_owned(),
                port => format!("127.0.0.1:{port}"),
            },
            cookie: format!("flotilla-{port}"),
            session: Secret::new()?,
            form: Secret::new()?,
            token: Mutex::new(None),
        })
    }

    /// A link for one browser. An earlier one that was not used is worth nothing any more.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn link(&self) -> Result<String, getrandom::Error> {
        let token = Secret::new()?;
        let link = format!("http://{}/login?token={}", self.host, token.0);
        *self.token.lock() = Some(token);
        Ok(link)
    }

    /// The cookie for the browser that has the token, which nobody can use again.
    pub(crate) fn enter(&self, said: &str) -> Result<String, Refusal> {
        let mut token = self.token.lock();
        if !token.as_ref().is_some_and(|token| token.is(said)) {
            return Err(Refusal::Token);
        }
        *token = None;
        Ok(format!(
            "{}={}; Path=/; HttpOnly; SameSite=Strict",
            self.cookie, self.session.0
        ))
    }

    /// Whether the request is to us, and from a page of ours or from the person. For every request, also to what is not
    /// secret.
    pub(crate) fn is_ours(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<(), Refusal> {
        let host = text(headers, HOST.as_str()).ok_or(Refusal::Host)?;
        if host != self.host {
            return Err(Refusal::Host);
        }
        let reads = method == Method::GET || method == Method::HEAD;
        let origin = text(headers, ORIGIN.as_str());
        let own = |origin: &str| origin.strip_prefix("http://") == Some(host);
        match origin {
            Some(origin) if !own(origin) => return Err(Refusal::Origin),
            None if !reads => return Err(Refusal::Origin),
            _ => {}
        }
        match text(headers, FETCH_SITE) {
            None | Some("same-origin" | "none") => Ok(()),
            // A link in somebody's notes: it shows a page to the person, and nothing to the site. To a page with a button
            // that writes only we lead: whoever else does could choose the moment at which a key is pressed there.
            Some(_) if reads && is_navigation(headers) && !INNER.contains(&path) => Ok(()),
            Some(_) => Err(Refusal::Origin),
        }
    }

    /// Whether somebody follows a link from another site: browsers send no cookie along then, whoever has been let in.
    pub(crate) fn is_from_elsewhere(method: &Method, headers: &HeaderMap) -> bool {
        method == Method::GET && is_navigation(headers) && text(headers, FETCH_SITE) == Some("cross-site")
    }

    /// Whether it comes from the browser that was let in.
    pub(crate) fn is_known(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies
            .flat_map(|line| line.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        let known = pairs.any(|(name, value)| name == self.cookie && self.session.is(value));
        known.then_some(()).ok_or(Refusal::Session)
    }

    /// Whether a form is one of ours.
    pub(crate) fn is_own_form(&self, said: &str) -> Result<(), Refusal> {
        self.form.is(said).then_some(()).ok_or(Refusal::Form)
    }

    /// What our forms carry.
    pub(crate) fn form(&self) -> &str {
        &self.form.0
    }
}

fn is_navigation(headers: &HeaderMap) -> bool {
    text(headers, FETCH_MODE) == Some("navigate")
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    // Twice is nobody's browser.
    let mut all = headers.get_all(name).iter();
    let first = all.next()?;
    if all.next().is_some() {
        return Some("");
    }
    Some(first.to_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[test]
    fn a_token_lets_one_browser_in() {
        let door = Door::new(4000).unwrap();
        assert_eq!(door.enter(""), Err(Refusal::Token));
        let first = door.link().unwrap();
        let second = door.link().unwrap();
        let token = |link: &str| link.split_once("token=").unwrap().1.to_owned();
        assert_eq!(
            door.enter(&token(&first)),
            Err(Refusal::Token),
            "a later link ends the earlier"
        );
        let cookie = door.enter(&token(&second)).unwrap();
        assert_eq!(door.enter(&token(&second)), Err(Refusal::Token), "it works once");
        assert!(cookie.starts_with("flotilla-4000=") && cookie.ends_with("; HttpOnly; SameSite=Strict"));
        let pair = cookie.split(';').next().unwrap();
        let lines = format!("other=1; {pair}; more=2");
        assert_eq!(door.is_known(&headers(&[("cookie", &lines)])), Ok(()));
        for wrong in [
            "",
            "flotilla-4000=",
            &pair[..pair.len() - 1],
            &pair.replace("4000", "4001"),
        ] {
            assert_eq!(
                door.is_known(&headers(&[("cookie", wrong)])),
                Err(Refusal::Session),
                "{wrong}"
            );
        }
        assert_eq!(door.is_own_form(door.form()), Ok(()));
        assert_eq!(door.is_own_form(""), Err(Refusal::Form));
    }

    #[test]
    fn only_our_own_pages_are_answered() {
        let door = Door::new(4000).unwrap();
        let own = ("host", "127.0.0.1:4000");
        let (get, post) = (Method::GET, Method::POST);
        for (method, pairs, answer) in [
            (&get, vec![own], Ok(())),
            (&get, vec![("host", "localhost:4000")], Err(Refusal::Host)),
            (&get, vec![], Err(Refusal::Host)),
            (&get, vec![own, own], Err(Refusal::Host)),
            (&get, vec![("host", "127.0.0.1")], Err(Refusal::Host)),
            (&get, vec![("host", "127.0.0.1:4001")], Err(Refusal::Host)),
            (&get, vec![("host", "evil.example:4000")], Err(Refusal::Host)),
            (&get, vec![own, ("origin", "http://127.0.0.1:4000")], Ok(())),
            (
                &get,
                vec![own, ("origin", "http://127.0.0.1:4001")],
                Err(Refusal::Origin),
            ),
            (&get, vec![own, ("origin", "null")], Err(Refusal::Origin)),
            (&get, vec![own, ("sec-fetch-site", "none")], Ok(())),
            (&get, vec![own, ("sec-fetch-site", "same-site")], Err(Refusal::Origin)),
            (
                &get,
                vec![own, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")],
                Ok(()),
            ),
            (&post, vec![own], Err(Refusal::Origin)),
            (&post, vec![own, ("origin", "http://127.0.0.1:4000")], Ok(())),
            (
                &post,
                vec![own, ("origin", "https://127.0.0.1:4000")],
                Err(Refusal::Origin),
            ),
            (
                &post,
                vec![
                    own,
                    ("origin", "http://127.0.0.1:4000"),
                    ("sec-fetch-site", "cross-site"),
                    ("sec-fetch-mode", "navigate"),
                ],
                Err(Refusal::Origin),
            ),
        ] {
            assert_eq!(
                door.is_ours(method, "/", &headers(&pairs)),
                answer,
                "{method} {pairs:?}"
            );
        }
    }

    #[test]
    fn only_our_own_pages_lead_to_one_that_writes() {
        let door = Door::new(4000).unwrap();
        let from = |site| {
            headers(&[
                ("host", "127.0.0.1:4000"),
                ("sec-fetch-site", site),
                ("sec-fetch-mode", "navigate"),
            ])
        };
        for (path, site, answer) in [
            ("/placements/web", "same-site", Ok(())),
            ("/placements/web", "cross-site", Ok(())),
            ("/act", "same-origin", Ok(())),
            // Loaded again, or typed.
            ("/act", "none", Ok(())),
            ("/act", "same-site", Err(Refusal::Origin)),
            ("/act", "cross-site", Err(Refusal::Origin)),
            ("/done", "same-site", Err(Refusal::Origin)),
            ("/live", "same-site", Err(Refusal::Origin)),
        ] {
            assert_eq!(door.is_ours(&Method::GET, path, &from(site)), answer, "{path} {site}");
        }
    }

    #[test]
    fn browsers_leave_out_the_usual_port() {
        let door = Door::new(80).unwrap();
        let own = [("host", "127.0.0.1"), ("origin", "http://127.0.0.1")];
        assert_eq!(door.is_ours(&Method::POST, "/act", &headers(&own)), Ok(()));
        assert!(door.link().unwrap().starts_with("http://127.0.0.1/login?token="));
    }
}
