//! The way to a server: straight, or through the HTTP proxy that `HTTPS_PROXY` or a kubeconfig names.
//!
//! A proxy sees where we connect to and nothing else: TLS is spoken through it, from end to end.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use http::{HeaderValue, Uri};
use hyper_util::{
    client::{
        legacy::connect::{HttpConnector, proxy::Tunnel},
        proxy::matcher::Matcher,
    },
    rt::TokioIo,
};
use tokio::net::TcpStream;
use tower::{BoxError, Service};

/// Makes connections.
#[derive(Clone, Debug)]
pub struct Way {
    straight: HttpConnector,
    proxies: Proxies,
}

#[derive(Clone)]
enum Proxies {
    None,
    /// Everything goes through this one.
    One(Uri),
    /// As the variables say.
    Chosen(Arc<Matcher>),
}

impl std::fmt::Debug for Proxies {
    // Never with what they hold: it may be a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::One(_) => "One",
            Self::Chosen(_) => "Chosen",
        })
    }
}

impl Way {
    /// Without a proxy, whatever the environment says: a Pod's own API server, say.
    pub fn straight(tcp: HttpConnector) -> Self {
        Self {
            straight: tcp,
            proxies: Proxies::None,
        }
    }

    /// Through this proxy, if there is one.
    pub fn through(tcp: HttpConnector, proxy: Option<Uri>) -> Self {
        Self {
            straight: tcp,
            proxies: proxy.map_or(Proxies::None, Proxies::One),
        }
    }

    /// As `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` say, in the manner of curl.
    pub fn from_env(tcp: HttpConnector) -> Self {
        Self::chosen(tcp, Matcher::from_env())
    }

    fn chosen(tcp: HttpConnector, matcher: Matcher) -> Self {
        Self {
            straight: tcp,
            proxies: Proxies::Chosen(Arc::new(matcher)),
        }
    }

    /// The proxy for a server, and what it wants to see.
    fn proxy(&self, server: &Uri) -> Option<(Uri, Option<HeaderValue>)> {
        let one;
        let matcher = match &self.proxies {
            Proxies::None => return None,
            Proxies::One(proxy) => {
                one = Matcher::builder().all(proxy.to_string()).build();
                &one
            }
            Proxies::Chosen(matcher) => matcher,
        };
        let found = matcher.intercept(server)?;
        Some((found.uri().clone(), found.basic_auth().cloned()))
    }
}

impl Service<Uri> for Way {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.straight.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let Some((proxy, password)) = self.proxy(&server) else {
            let connecting = self.straight.call(server);
            return Box::pin(async move { connecting.await.map_err(Into::into) });
        };
        // The address alone: what is before it may be a password.
        let named = proxy
            .authority()
            .map(|all| all.as_str().rsplit('@').next().unwrap_or_default().to_owned());
        let named = named.unwrap_or_default();
        if proxy.scheme_str() != Some("http") {
            let scheme = proxy.scheme_str().unwrap_or_default();
            let why = format!("the proxy {named} is of the kind {scheme}://, and only http:// proxies are supported");
            return Box::pin(async move { Err(why.into()) });
        }
        let mut tunnel = Tunnel::new(proxy, self.straight.clone());
        if let Some(password) = password {
            tunnel = tunnel.with_auth(password);
        }
        let connecting = tunnel.call(server);
        Box::pin(async move {
            let failed = |error| format!("through the proxy {named}: {}", crate::logs::chain(&error));
            connecting.await.map_err(|error| failed(error).into())
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
        net::TcpListener,
    };

    use super::*;

    fn way(https: &str, no: &str) -> Way {
        Way::chosen(crate::client::tcp(), Matcher::builder().https(https).no(no).build())
    }

    fn chosen(way: &Way, server: &str) -> Option<String> {
        way.proxy(&server.parse().unwrap()).map(|(proxy, _)| proxy.to_string())
    }

    #[test]
    fn the_variables_say_who_goes_through_a_proxy() {
        let way = way("http://proxy.example:3128", "10.0.0.0/8, .internal, hub.example");
        let through = Some("http://proxy.example:3128/".to_owned());
        assert_eq!(chosen(&way, "https://api.example:6443"), through);
        for straight in [
            "https://10.96.0.1",
            "https://x.internal:443",
            "https://hub.example:8443",
        ] {
            assert_eq!(chosen(&way, straight), None, "{straight}");
        }
        let one = Way::through(crate::client::tcp(), Some("http://one.example:1".parse().unwrap()));
        assert_eq!(
            chosen(&one, "https://hub.example"),
            Some("http://one.example:1/".to_owned())
        );
        assert_eq!(
            chosen(&Way::straight(crate::client::tcp()), "https://hub.example"),
            None
        );
    }

    #[tokio::test]
    async fn the_proxy_is_told_the_server_and_the_password_and_then_passes_bytes_on() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let proxy = tokio::spawn(async move {
            let mut stream = BufReader::new(listener.accept().await.unwrap().0);
            let mut said = String::new();
            while !said.ends_with("\r\n\r\n") {
                stream.read_line(&mut said).await.unwrap();
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            // As in TLS, who has connected speaks first.
            let mut passed_on = [0; 5];
            stream.read_exact(&mut passed_on).await.unwrap();
            stream.write_all(&passed_on).await.unwrap();
            said
        });
        let mut way = way(&format!("http://me:secret@{address}"), "");
        let stream = way.call("https://hub.example:8443".parse().unwrap()).await.unwrap();
        let mut stream = stream.into_inner();
        stream.write_all(b"hello").await.unwrap();
        let mut passed_on = [0; 5];
        stream.read_exact(&mut passed_on).await.unwrap();
        assert_eq!(&passed_on, b"hello");
        let said = proxy.await.unwrap();
        assert!(said.starts_with("CONNECT hub.example:8443 HTTP/1.1\r\n"), "{said}");
        assert!(
            said.to_lowercase().contains("proxy-authorization: basic bwu6c2vjcmv0"),
            "{said}"
        );
    }

    #[tokio::test]
    async fn what_is_in_the_way_is_said_without_the_password() {
        let said = |way: Way| async move {
            let mut way = way;
            way.call("https://hub.example".parse().unwrap())
                .await
                .unwrap_err()
                .to_string()
        };
        let wrong = said(way("socks5://me:secret@proxy.example:1080", "")).await;
        assert!(
            wrong.contains("proxy.example:1080") && wrong.contains("only http://"),
            "{wrong}"
        );
        // Nobody listens there: the port was free a moment ago.
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let away = said(way(&format!("http://me:secret@{free}"), "")).await;
        assert!(away.contains(&format!("through the proxy {free}")), "{away}");
        assert!(!wrong.contains("secret") && !away.contains("secret"));
    }
}
