//! Prices of VM sizes from a file.

use std::{collections::BTreeMap, fs, path::PathBuf, time::SystemTime};

use fleet_core::membership::properties::Prices;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;

/// A file of prices, read again when it has changed.
#[derive(Debug)]
pub struct PriceFile {
    path: PathBuf,
    seen: Mutex<Option<(SystemTime, Read)>>,
}

type Read = Result<Content, String>;

/// Either prices alone, which are then taken to be true as long as the file says so, or with the time of their origin.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Content {
    Dated {
        updated: Timestamp,
        prices: BTreeMap<String, f64>,
    },
    Plain(BTreeMap<String, f64>),
}

impl PriceFile {
    /// Nothing is read yet.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            seen: Mutex::new(None),
        }
    }

    /// The prices of this moment; none if the file cannot be read, which is logged once per change.
    pub fn prices(&self, now: Timestamp) -> Option<Prices> {
        let modified = fs::metadata(&self.path)
            .and_then(|m| m.modified())
            .unwrap_or(SystemTime::UNIX_EPOCH);
        let mut seen = self.seen.lock();
        if seen.as_ref().is_none_or(|(at, _)| *at != modified) {
            let read = self.read();
            if let Err(error) = &read {
                tracing::warn!(file = %self.path.display(), error, "Could not read the VM prices");
            }
            *seen = Some((modified, read));
        }
        match &seen.as_ref()?.1 {
            Ok(Content::Plain(hourly)) => Some(Prices {
                hourly: hourly.clone(),
                updated: now,
            }),
            Ok(Content::Dated { updated, prices }) => Some(Prices {
                hourly: prices.clone(),
                updated: *updated,
            }),
            Err(_) => None,
        }
    }

    fn read(&self) -> Read {
        let text = fs::read_to_string(&self.path).map_err(|e| e.to_string())?;
        serde_json::from_str(&text)
            .map_err(|_| "neither {\"size\": price, …} nor {\"updated\": time, \"prices\": {…}}".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_changes_noticed() {
        let path = std::env::temp_dir().join(format!("fleet-prices-{}", std::process::id()));
        let file = PriceFile::new(path.clone());
        let now = Timestamp::from_second(1000).unwrap();
        let write = |text: &str, second: u64| {
            fs::write(&path, text).unwrap();
            let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(second);
            fs::File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_modified(at)
                .unwrap();
        };
        assert_eq!(file.prices(now), None);
        write(r#"{"D4": 0.2, "D8": 1}"#, 1);
        let prices = file.prices(now).unwrap();
        assert_eq!((prices.hourly["D8"], prices.updated), (1.0, now));
        write(r#"{"updated": "1970-01-01T00:00:05Z", "prices": {"D4": 0.3}}"#, 2);
        let prices = file.prices(now).unwrap();
        assert_eq!((prices.hourly["D4"], prices.updated.as_second()), (0.3, 5));
        write("[]", 3);
        assert_eq!(file.prices(now), None);
        fs::remove_file(&path).unwrap();
    }
}
