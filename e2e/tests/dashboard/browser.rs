//! A browser that was let in by a dashboard, and what one can see in it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use fantoccini::wd::{Capabilities, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder, Locator};
use fleet_e2e::agents::program;
use fleet_e2e::harness::Ctx;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// How long a page may take to show what has happened on a machine that does many things at once.
const PATIENCE: Duration = Duration::from_mins(1);

/// One window, and the processes behind it. They end with it.
pub(crate) struct Browser {
    pub(crate) page: Client,
    /// Where the dashboard listens.
    pub(crate) at: String,
    links: Lines<BufReader<ChildStdout>>,
    dashboard: Child,
    _driver: Child,
    _profile: TempDir,
}

/// What the page is looked at with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Theme {
    Light,
    Dark,
}

impl Theme {
    pub(crate) const ALL: [Self; 2] = [Self::Light, Self::Dark];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

impl Browser {
    /// As the administrator of the fleet.
    pub(crate) async fn new(ctx: &Ctx) -> Result<Self> {
        let kubeconfig = ctx
            .fleet()
            .state()
            .kubeconfig
            .clone()
            .context("the fleet has a kubeconfig")?;
        let context = ctx.fleet().clusters()[0].context.clone();
        Self::of(&kubeconfig, &["--hub-cluster-context", &context]).await
    }

    /// As whoever a kubeconfig is for.
    pub(crate) async fn of(kubeconfig: &Path, args: &[&str]) -> Result<Self> {
        let mut dashboard = Command::new(program("kubectl-fleet")?)
            .args(["dashboard", "--no-open"])
            .args(args)
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut links = BufReader::new(dashboard.stdout.take().context("it says nothing")?).lines();
        let link = links.next_line().await?.context("it ended without a link")?;
        let (at, _) = link.split_once("/login").context("the link leads elsewhere")?;
        let profile = tempfile::tempdir()?;
        let (driver, port) = driver().await?;
        let page = session(port, profile.path()).await?;
        page.goto(&link).await?;
        let browser = Self {
            at: at.to_owned(),
            page,
            links,
            dashboard,
            _driver: driver,
            _profile: profile,
        };
        browser
            .until("document.querySelector('#fragment')", "the first page")
            .await?;
        Ok(browser)
    }

    /// Opens a page.
    pub(crate) async fn open(&self, path: &str) -> Result<()> {
        self.page.goto(&format!("{}{path}", self.at)).await?;
        Ok(())
    }

    /// Waits until the page has this text.
    pub(crate) async fn until_it_says(&self, text: &str) -> Result<()> {
        let condition = format!("document.body.innerText.includes({})", json!(text));
        self.until(&condition, text).await
    }

    /// Waits until the page does not have this text.
    #[allow(dead_code, reason = "only the scenario where the API server is away needs it")]
    pub(crate) async fn until_it_is_silent_about(&self, text: &str) -> Result<()> {
        let condition = format!("!document.body.innerText.includes({})", json!(text));
        self.until(&condition, &format!("no {text}")).await
    }

    /// Waits until an expression of the page is true. The page itself says when it has changed.
    pub(crate) async fn until(&self, condition: &str, what: &str) -> Result<()> {
        // A script is lost without a word when another page comes: then the new one is asked. Each asks for a while only.
        let script = format!(
            "const done = arguments[0]; const is = () => Boolean({condition});
             if (is()) {{ done(true); return; }}
             const watch = new MutationObserver(() => {{ if (is()) {{ watch.disconnect(); done(true); }} }});
             watch.observe(document.documentElement, {{ subtree: true, childList: true, characterData: true, attributes: true }});
             setTimeout(() => {{ watch.disconnect(); done(is()); }}, 5000);"
        );
        let waiting = async {
            loop {
                match self.page.execute_async(&script, vec![]).await {
                    Ok(Value::Bool(true)) => return Ok(()),
                    Ok(_) => {}
                    Err(error) if is_another_page(&error.to_string()) => {}
                    Err(error) => bail!("{what}: {error}\n{}", self.text().await?),
                }
            }
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(seen) => seen,
            Err(_) => bail!("{what} was not seen in time\n{}", self.text().await?),
        }
    }

    /// What can be read.
    pub(crate) async fn text(&self) -> Result<String> {
        let text = self.page.execute("return document.body.innerText", vec![]).await?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// What an expression of the page is.
    pub(crate) async fn value(&self, expression: &str) -> Result<Value> {
        Ok(self.page.execute(&format!("return {expression}"), vec![]).await?)
    }

    pub(crate) async fn click(&self, css: &str) -> Result<()> {
        self.page.find(Locator::Css(css)).await?.click().await?;
        Ok(())
    }

    /// Another link, as one gets it by pressing Enter.
    pub(crate) async fn another_link(&mut self) -> Result<String> {
        use tokio::io::AsyncWriteExt as _;
        let stdin = self.dashboard.stdin.as_mut().context("it reads nothing")?;
        stdin.write_all(b"\n").await?;
        self.links.next_line().await?.context("it has ended")
    }

    /// Looks at the page in a theme and at a width.
    pub(crate) async fn looks(&self, theme: Theme, width: u32) -> Result<()> {
        let scheme = json!({ "name": "prefers-color-scheme", "value": theme.word() });
        let emulated = json!({ "features": [scheme] });
        self.page
            .issue_cmd(DevTools("Emulation.setEmulatedMedia", emulated))
            .await?;
        let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.page
            .issue_cmd(DevTools("Emulation.setDeviceMetricsOverride", size))
            .await?;
        Ok(())
    }

    /// A picture of what is seen, with everything below it up to a height.
    pub(crate) async fn picture(&self, theme: Theme, width: u32) -> Result<Vec<u8>> {
        const HEIGHT_MAX: u64 = 2400;
        self.looks(theme, width).await?;
        let height = self.value("document.documentElement.scrollHeight").await?;
        let height = height.as_u64().unwrap_or(900).clamp(600, HEIGHT_MAX);
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.page
            .issue_cmd(DevTools("Emulation.setDeviceMetricsOverride", size))
            .await?;
        Ok(self.page.screenshot().await?)
    }

    pub(crate) async fn close(self) -> Result<()> {
        self.page.clone().close().await?;
        Ok(())
    }
}

/// What only Chromium's own protocol can do.
#[derive(Debug)]
struct DevTools(&'static str, Value);

impl WebDriverCompatibleCommand for DevTools {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/goog/cdp/execute", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        let body = json!({ "cmd": self.0, "params": self.1 });
        (http::Method::POST, Some(body.to_string()))
    }
}

fn found(program: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|dir| dir.join(program));
    let found = places.find(|place| place.is_file());
    found.with_context(|| {
        format!("{program} is missing: install Debian's chromium and chromium-driver, or put it on the PATH")
    })
}

async fn driver() -> Result<(Child, u16)> {
    let mut driver = Command::new(found("chromedriver")?)
        .arg("--port=0")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut said = BufReader::new(driver.stdout.take().context("it says nothing")?).lines();
    while let Some(line) = said.next_line().await? {
        let port = line.split_once("started successfully on port ").map(|(_, port)| port);
        if let Some(port) = port.and_then(|port| port.trim_end_matches('.').parse().ok()) {
            // Whoever closes what a process writes to ends it.
            tokio::spawn(async move { while let Ok(Some(_)) = said.next_line().await {} });
            return Ok((driver, port));
        }
    }
    bail!("chromedriver has ended");
}

async fn session(port: u16, profile: &Path) -> Result<Client> {
    let profile = format!("--user-data-dir={}", profile.display());
    let args = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--hide-scrollbars",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        &profile,
    ];
    let binary = found("chromium")?;
    let options = json!({
        "browserName": "chrome", "goog:chromeOptions": { "args": args, "binary": binary },
        "timeouts": { "script": PATIENCE.as_millis() },
    });
    let capabilities: Capabilities = options.as_object().cloned().context("it is an object")?;
    let mut builder = ClientBuilder::new(HttpConnector::new());
    let client = builder
        .capabilities(capabilities)
        .connect(&format!("http://127.0.0.1:{port}"))
        .await?;
    Ok(client)
}

/// Asks the dashboard without any browser: `GET`, with these headers. The status and the body.
pub(crate) async fn ask(at: &str, path: &str, headers: &[(&str, &str)]) -> Result<String> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let address = at.strip_prefix("http://").context("it is http")?;
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let mut request = format!("GET {path} HTTP/1.1\r\n");
    for (name, value) in headers {
        request.extend([name, ": ", value, "\r\n"]);
    }
    request.push_str("Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    ensure!(answer.starts_with("HTTP/1.1 "), "{answer}");
    Ok(answer)
}

/// Whether a script ended because the page that it was on has gone.
fn is_another_page(error: &str) -> bool {
    [
        "script timeout",
        "unload",
        "context was destroyed",
        "no longer attached",
    ]
    .iter()
    .any(|word| error.contains(word))
}
