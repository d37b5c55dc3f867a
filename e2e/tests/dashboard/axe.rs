//! Rules of accessibility, by axe-core, which reads no stylesheet again: the page forbids it more connections than its own. `make test` fetches it once (`$FLEET_CACHE_DIR/tools/axe.min.js`).

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};

use crate::browser::Browser;

fn source() -> Result<String> {
    let cache = std::env::var_os("FLEET_CACHE_DIR").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/flotilla"));
    let dir = cache.or_else(home).context("neither FLEET_CACHE_DIR nor HOME is set")?;
    let file = dir.join("tools/axe.min.js");
    std::fs::read_to_string(&file).with_context(|| format!("{} is missing: make e2e fetches it", file.display()))
}

/// The page as it is breaks no rule of WCAG 2.2 A and AA.
pub(crate) async fn clean(browser: &Browser, what: &str) -> Result<()> {
    let script = format!(
        "{}; const done = arguments[0];
         axe.run(document, {{ preload: false, runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }})
           .then((found) => done(found.violations.map((it) => it.id + ': ' + it.help + ' ' +
             it.nodes.slice(0, 3).map((node) => node.html.slice(0, 200) + ' ' + node.failureSummary).join(' | '))),
             (error) => done(['axe: ' + error]));",
        source()?
    );
    let found = browser.page.execute_async(&script, vec![]).await?;
    let found: Vec<String> = serde_json::from_value(found)?;
    ensure!(found.is_empty(), "{what}:\n{}", found.join("\n"));
    Ok(())
}
