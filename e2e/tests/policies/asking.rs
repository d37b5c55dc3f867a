//! Requests in the name of others, all of them dry: admission judges them as it would the real ones.

use anyhow::{Context as _, Result};
use fleet_e2e::fleet::Fleet;
use http::Request;
use kube::config::KubeConfigOptions;
use kube::{Client, Config};
use serde_json::Value;

/// Who asks, as the API server knows them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Who {
    pub(crate) user: &'static str,
    pub(crate) groups: &'static [&'static str],
}

/// A request and what is to become of it.
#[derive(Debug)]
pub(crate) struct Row {
    who: Who,
    method: &'static str,
    path: String,
    body: Option<Value>,
    /// How the denial ends; none: it is allowed.
    says: Option<String>,
}

impl Who {
    pub(crate) const fn new(user: &'static str, groups: &'static [&'static str]) -> Self {
        Self { user, groups }
    }

    fn asks(self, method: &'static str, path: &str, body: Option<Value>) -> Row {
        let path = path.to_owned();
        Row {
            who: self,
            method,
            path,
            body,
            says: None,
        }
    }

    /// Creates this in the collection at this path.
    pub(crate) fn creates(self, path: &str, body: Value) -> Row {
        self.asks("POST", path, Some(body))
    }

    /// Merges this into the object at this path.
    pub(crate) fn merges(self, path: &str, body: Value) -> Row {
        self.asks("PATCH", path, Some(body))
    }

    /// Deletes the object at this path.
    pub(crate) fn deletes(self, path: &str) -> Row {
        self.asks("DELETE", path, None)
    }

    /// The groups as denials print them.
    fn shown(self) -> String {
        if self.groups.len() >= 10 {
            return format!("{},......", self.groups[..3].join(", "));
        }
        [self.groups, &["system:authenticated"]].concat().join(" ")
    }
}

impl Row {
    /// Refused in the words of the guard rails: the kind with its subresource, and the object.
    pub(crate) fn refused(self, kind: &str, object: &str) -> Self {
        let operation = match self.method {
            "POST" => "CREATE",
            "PATCH" => "UPDATE",
            other => other,
        };
        let Who { user, .. } = self.who;
        let groups = self.who.shown();
        let text =
            format!("user: '{user}' in 'groups: [{groups}]' is not allowed to {operation} resource {kind}: {object}");
        self.says(&text)
    }

    /// Refused in these words.
    pub(crate) fn says(self, text: &str) -> Self {
        Self {
            says: Some(text.to_owned()),
            ..self
        }
    }

    /// What is wrong with the answer, if anything is.
    async fn judge(&self, admin: &Config) -> Result<Option<String>> {
        let mut config = admin.clone();
        config.auth_info.impersonate = Some(self.who.user.to_owned());
        config.auth_info.impersonate_groups = Some(self.who.groups.iter().map(|&group| group.to_owned()).collect());
        let kind = match self.method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = self.body.as_ref().map(serde_json::to_vec).transpose()?;
        let request = Request::builder()
            .method(self.method)
            .uri(format!("{}?dryRun=All", self.path))
            .header("Content-Type", kind)
            .body(body.unwrap_or_default())?;
        let answer = Client::try_from(config)?.request_text(request).await;
        let at = format!("{} {} {} {:?}", self.who.user, self.method, self.path, self.body);
        Ok(match (answer, &self.says) {
            (Ok(_), None) => None,
            (Ok(_), Some(says)) => Some(format!("{at}: allowed, should say {says:?}")),
            (Err(kube::Error::Api(status)), Some(says)) => {
                let right = status.code == 403 && status.message.ends_with(&format!("denied request: {says}"));
                (!right).then(|| format!("{at}: should say {says:?}: {} {}", status.code, status.message))
            }
            (Err(error), _) => Some(format!("{at}: {error}")),
        })
    }
}

/// Asks everything, and names every answer that is not as it should be.
pub(crate) async fn all(admin: &Config, rows: &[Row]) -> Result<()> {
    let mut wrong = Vec::new();
    for row in rows {
        wrong.extend(row.judge(admin).await?);
    }
    anyhow::ensure!(
        wrong.is_empty(),
        "{} of {} answers are wrong:\n{}",
        wrong.len(),
        rows.len(),
        wrong.join("\n")
    );
    println!("{} requests were judged", rows.len());
    Ok(())
}

/// An administrator's way to a cluster.
pub(crate) async fn admin(fleet: &Fleet, cluster: &str) -> Result<Config> {
    let options = KubeConfigOptions {
        context: Some(fleet.cluster(cluster)?.context.clone()),
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(fleet.kubeconfig()?, &options).await;
    config.with_context(|| format!("no way to {cluster}"))
}
