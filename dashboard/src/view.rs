//! What a page shows, as its URL says it: a page, its live fragments and every link go through here.

use std::borrow::Cow;

use form_urlencoded::Serializer;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What stands for itself in a path.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Nobody types more, and it is shown back in the page.
const FILTER_MAX: usize = 200;

/// An object of either scope.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// Empty for a cluster-scoped object.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Name {
    /// An object of either scope; of the cluster's if the namespace is empty.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// As people write it.
    pub fn shown(&self) -> Cow<'_, str> {
        match self.namespace.as_str() {
            "" => Cow::Borrowed(&self.name),
            namespace => Cow::Owned(format!("{namespace}/{}", self.name)),
        }
    }

    /// The flag for its namespace, with a space before it.
    pub(crate) fn flag(&self) -> String {
        match self.namespace.as_str() {
            "" => String::new(),
            namespace => format!(" -n {namespace}"),
        }
    }

    /// One of two words: for the cluster-scoped kind, and for the namespaced one.
    pub(crate) fn word<'a>(&self, cluster: &'a str, namespaced: &'a str) -> &'a str {
        if self.namespace.is_empty() { cluster } else { namespaced }
    }
}

/// Which members and placements the matrix shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// A part of the name of a member or a placement.
    pub(crate) text: String,
    /// The label by whose values members are grouped.
    pub(crate) group: String,
    /// Only what is not as it should be.
    pub(crate) trouble: bool,
    /// The page of members, from 0.
    pub(crate) members: usize,
    /// The page of placements, from 0.
    pub(crate) placements: usize,
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum View {
    /// Members and placements as a matrix.
    Fleet(Filter),
    /// All placements; the page.
    Placements(usize),
    /// One of them.
    Placement(Name, Turned),
    /// A placement on one cluster: why, and what differs.
    On(Name, String),
    /// All that differs of a placement.
    Differences(Name),
    /// The resource snapshots of a placement.
    Snapshots(Name),
    /// What changes from one of them to another.
    Changes(Name, u64, u64),
    /// All update runs; the page.
    Runs(usize),
    /// One of them.
    Run(Name),
    /// All members; the page.
    Members(usize),
    /// One of them.
    Member(String),
    /// What has happened to all, or to one.
    Timeline(Option<About>),
}

/// The pages of the two lists of a placement, from 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Turned {
    /// Of its clusters.
    pub(crate) clusters: usize,
    /// Of the members that were not picked.
    pub(crate) others: usize,
}

/// Whose timeline it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum About {
    Placement(Name),
    Run(Name),
    Member(String),
}

impl View {
    /// The whole fleet.
    pub(crate) fn fleet() -> Self {
        Self::Fleet(Filter::default())
    }

    /// The first page of a placement.
    pub(crate) fn placement(name: Name) -> Self {
        Self::Placement(name, Turned::default())
    }

    /// What a URL shows; nothing if it is none of ours.
    pub(crate) fn parse(path: &str, query: &str) -> Option<Self> {
        let segments: Vec<String> = path
            .strip_prefix('/')?
            .split('/')
            .map(|segment| percent_decode_str(segment).decode_utf8().ok().map(Cow::into_owned))
            .collect::<Option<_>>()?;
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let (namespace, rest) = match segments.as_slice() {
            ["namespaces", namespace, rest @ ..] if !namespace.is_empty() => (*namespace, rest),
            all => ("", all),
        };
        let named = |name: &str| (!name.is_empty()).then(|| Name::new(namespace, name));
        let page = || number(query, "page");
        Some(match rest {
            ["placements", name] => Self::Placement(named(name)?, Turned::parse(query)),
            ["placements", name, "on", cluster] => Self::On(named(name)?, (*cluster).to_owned()),
            ["placements", name, "differences"] => Self::Differences(named(name)?),
            ["placements", name, "snapshots"] => Self::Snapshots(named(name)?),
            ["placements", name, "changes"] => Self::Changes(named(name)?, number(query, "from"), number(query, "to")),
            ["placements", name, "timeline"] => Self::Timeline(Some(About::Placement(named(name)?))),
            ["runs", name] => Self::Run(named(name)?),
            ["runs", name, "timeline"] => Self::Timeline(Some(About::Run(named(name)?))),
            _ if !namespace.is_empty() => return None,
            [""] => Self::Fleet(Filter::parse(query)),
            ["placements"] => Self::Placements(page()),
            ["runs"] => Self::Runs(page()),
            ["members"] => Self::Members(page()),
            ["members", name] => Self::Member(named(name)?.name),
            ["members", name, "timeline"] => Self::Timeline(Some(About::Member(named(name)?.name))),
            ["timeline"] => Self::Timeline(None),
            _ => return None,
        })
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Fleet(filter) => format!("/{}", filter.query()),
            Self::Placements(page) => list("placements", *page),
            Self::Placement(name, turned) => of("placements", name, &turned.query()),
            Self::On(name, cluster) => of("placements", name, &format!("/on/{}", segment(cluster))),
            Self::Differences(name) => of("placements", name, "/differences"),
            Self::Snapshots(name) => of("placements", name, "/snapshots"),
            Self::Changes(name, from, to) => of("placements", name, &format!("/changes?from={from}&to={to}")),
            Self::Runs(page) => list("runs", *page),
            Self::Run(name) => of("runs", name, ""),
            Self::Members(page) => list("members", *page),
            Self::Member(name) => format!("/members/{}", segment(name)),
            Self::Timeline(None) => "/timeline".into(),
            Self::Timeline(Some(About::Placement(name))) => of("placements", name, "/timeline"),
            Self::Timeline(Some(About::Run(name))) => of("runs", name, "/timeline"),
            Self::Timeline(Some(About::Member(name))) => format!("/members/{}/timeline", segment(name)),
        }
    }

    /// The names of objects in it.
    pub(crate) fn names(&self) -> Vec<&str> {
        match self {
            Self::Fleet(_) | Self::Placements(_) | Self::Runs(_) | Self::Members(_) | Self::Timeline(None) => {
                Vec::new()
            }
            Self::On(name, cluster) => vec![&name.namespace, &name.name, cluster],
            Self::Member(name) | Self::Timeline(Some(About::Member(name))) => vec![name],
            Self::Placement(name, _)
            | Self::Differences(name)
            | Self::Snapshots(name)
            | Self::Changes(name, ..)
            | Self::Run(name)
            | Self::Timeline(Some(About::Placement(name) | About::Run(name))) => vec![&name.namespace, &name.name],
        }
    }

    /// The placement or the run that it is about.
    pub(crate) fn object(&self) -> Option<&Name> {
        match self {
            Self::On(name, _)
            | Self::Placement(name, _)
            | Self::Differences(name)
            | Self::Snapshots(name)
            | Self::Changes(name, ..)
            | Self::Run(name)
            | Self::Timeline(Some(About::Placement(name) | About::Run(name))) => Some(name),
            _ => None,
        }
    }

    /// The page that answers a `kubectl fleet why …` or `diff …`; nothing for other commands.
    pub(crate) fn of_command(command: &str) -> Option<Self> {
        let (verb, rest) = command.strip_prefix("kubectl fleet ")?.split_once(' ')?;
        let mut words = rest.split_whitespace();
        let (kind, name) = words.next()?.split_once('/')?;
        let rest: Vec<&str> = words.collect();
        let (cluster, namespace) = match rest.as_slice() {
            [] => (None, ""),
            ["-n", namespace] => (None, *namespace),
            [cluster] => (Some(*cluster), ""),
            [cluster, "-n", namespace] => (Some(*cluster), *namespace),
            _ => return None,
        };
        let named = Name::new(namespace, name);
        match (kind, cluster) {
            ("crp" | "rp", None) if verb == "diff" => Some(Self::Differences(named)),
            ("crp" | "rp", Some(cluster)) if verb == "diff" => Some(Self::On(named, cluster.to_owned())),
            _ if verb != "why" => None,
            ("crp" | "rp", Some(cluster)) => Some(Self::On(named, cluster.to_owned())),
            ("crp" | "rp", None) => Some(Self::placement(named)),
            ("csur" | "sur", None) => Some(Self::Run(named)),
            ("membercluster", None) => Some(Self::Member(name.to_owned())),
            _ => None,
        }
    }
}

impl Turned {
    fn parse(query: &str) -> Self {
        Self {
            clusters: number(query, "page"),
            others: number(query, "others"),
        }
    }

    fn query(self) -> String {
        query_of(&[("page", nth(self.clusters)), ("others", nth(self.others))])
    }
}

impl Filter {
    fn parse(query: &str) -> Self {
        let mut filter = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let text = || value.chars().take(FILTER_MAX).collect();
            match key.as_ref() {
                "q" => filter.text = text(),
                "group" => filter.group = text(),
                "show" => filter.trouble = value == "trouble",
                "members" => filter.members = value.parse().unwrap_or(0),
                "placements" => filter.placements = value.parse().unwrap_or(0),
                _ => {}
            }
        }
        filter
    }

    fn query(&self) -> String {
        query_of(&[
            ("q", self.text.clone()),
            ("group", self.group.clone()),
            (
                "show",
                if self.trouble {
                    "trouble".to_owned()
                } else {
                    String::new()
                },
            ),
            ("members", nth(self.members)),
            ("placements", nth(self.placements)),
        ])
    }
}

/// A query of what is not empty.
fn query_of<const N: usize>(pairs: &[(&str, String); N]) -> String {
    let mut query = Serializer::new(String::new());
    query.extend_pairs(pairs.iter().filter(|(_, value)| !value.is_empty()));
    match query.finish() {
        query if query.is_empty() => query,
        query => format!("?{query}"),
    }
}

/// A page in a URL, where the first needs no number.
fn nth(page: usize) -> String {
    if page == 0 { String::new() } else { page.to_string() }
}

/// Names of objects are no longer, and have no such characters: what is typed into a shell has none either.
pub(crate) fn fits(name: &str) -> bool {
    const NAME_MAX: usize = 253;
    name.len() <= NAME_MAX
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

/// A part of a path, whatever characters it has.
fn segment(text: &str) -> String {
    utf8_percent_encode(text, IN_PATH).to_string()
}

fn list(kind: &str, page: usize) -> String {
    format!("/{kind}{}", query_of(&[("page", nth(page))]))
}

fn of(kind: &str, name: &Name, rest: &str) -> String {
    let own = segment(&name.name);
    match name.namespace.as_str() {
        "" => format!("/{kind}/{own}{rest}"),
        namespace => format!("/namespaces/{}/{kind}/{own}{rest}", segment(namespace)),
    }
}

fn number<N: std::str::FromStr + Default>(query: &str, key: &str) -> N {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let value = pairs.find(|(name, _)| name == key).map(|(_, value)| value);
    value.and_then(|value| value.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
