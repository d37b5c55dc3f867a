//! The pictures of the documentation show pages as they are. `PICTURES=write cargo test -p fleet-dashboard pictures` takes them
//! anew with a headless Chromium; without it nothing but the pages themselves is compared, with what was noted when they were
//! taken.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use fleet_testkit::Server;

use super::{gallery, visitor::Visitor, world};

/// Pages, and how much of them is shown: all that says something.
const PICTURES: [(&str, &str, u32); 3] = [
    ("fleet", "/", 1230),
    ("difference", "/placements/web/on/tokyo", 1080),
    ("run", "/runs/shop-v42", 980),
];
const STYLE: &str = include_str!("../assets/style.css");
const SCRIPT: &str = include_str!("../assets/live.js");
const ICON: &str = include_str!("../assets/icon.svg");

/// FNV-1a: it is the same tomorrow.
fn sum(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A page as a file that needs no dashboard, at the time of the gallery.
fn alone(page: &str) -> String {
    let (before, after) = page.split_once(" data-live=\"").expect("it refreshes itself");
    let (_, after) = after.split_once('"').expect("the attribute ends");
    let page = format!("{before}{after}").replace("\"/assets/", "\"assets/");
    let now = format!("<head><script>Date.now = () => Date.parse(\"{}\")</script>", world::NOW);
    page.replacen("<head>", &now, 1)
}

/// Takes a picture of a page in one theme.
fn take(dir: &Path, page: &str, theme: &str, height: u32, to: &Path) {
    let assets = dir.join("assets");
    std::fs::create_dir_all(&assets).unwrap();
    let style = STYLE.replace("color-scheme: light dark;", &format!("color-scheme: {theme};"));
    assert_ne!(style, STYLE, "the style has both themes");
    for (name, text) in [("style.css", style.as_str()), ("live.js", SCRIPT), ("icon.svg", ICON)] {
        std::fs::write(assets.join(name), text).unwrap();
    }
    let file = dir.join("page.html");
    std::fs::write(&file, alone(page)).unwrap();
    let taken = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--force-device-scale-factor=1",
        ])
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg(format!("--window-size=1280,{height}"))
        .arg(format!("--screenshot={}", to.display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("chromium is there");
    assert!(to.is_file(), "{}", String::from_utf8_lossy(&taken.stderr));
}

#[tokio::test]
async fn the_pictures_of_the_documentation_show_pages_as_they_are() {
    let server = Server::new();
    gallery::hang(&server);
    let visitor = Visitor::on(server, true).await;
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/images");
    let writes = std::env::var("PICTURES").is_ok_and(|word| word == "write");
    let mut noted = String::new();
    for (name, path, height) in PICTURES {
        let answer = visitor.get(path).await;
        assert_eq!(answer.code, 200, "{path}");
        let _ = writeln!(noted, "{name} {:016x}", sum(&[&answer.body, STYLE]));
        for theme in ["light", "dark"] {
            let to = dir.join(format!("dashboard-{name}-{theme}.png"));
            if writes {
                let own = std::env::temp_dir().join(format!("flotilla-pictures-{}", std::process::id()));
                take(&own, &answer.body, theme, height, &to);
                std::fs::remove_dir_all(&own).unwrap();
            }
            assert!(to.is_file(), "{} is missing", to.display());
        }
    }
    let file = dir.join("dashboard.txt");
    if writes {
        std::fs::write(&file, &noted).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&file).unwrap_or_default(),
        noted,
        "the pages in docs/images are other ones now: PICTURES=write takes the pictures anew (look at them)"
    );
}
