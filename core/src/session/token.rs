//! A hub token that ends: what it says of itself, and when to ask for the next one.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

/// Longer than any token that an API server issues.
pub const TOKEN_MAX: usize = 16 * 1024;
/// The shortest life that an API server grants.
pub const LIFETIME_MIN: SignedDuration = SignedDuration::from_mins(10);
/// What to ask for if the token does not say how long it was meant to live, and what `kubectl fleet join` asks for. A
/// member that is cut off from the hub comes back by itself for at least half of it.
pub const LIFETIME: SignedDuration = SignedDuration::from_hours(30 * 24);

/// The first and the longest pause between two tries to renew.
const RETRY_MIN: SignedDuration = SignedDuration::from_secs(5);
const RETRY_MAX: SignedDuration = SignedDuration::from_mins(5);

/// What a ServiceAccount's token that ends says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// The ServiceAccount's namespace on the hub.
    pub namespace: String,
    /// The ServiceAccount's name.
    pub name: String,
    /// When it ends, by the hub's clock.
    pub ends: Timestamp,
    /// How long it was meant to live.
    pub lifetime: SignedDuration,
}

/// How a token stands, by the member's clock. For words only: no clock decides when to renew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// More than a quarter of its life is left.
    Good,
    /// It ends soon.
    Ending,
    /// It has ended.
    Ended,
}

impl Claims {
    /// Reads our own token. Nothing is verified, which is the hub's to do. None: it never ends, or belongs to no
    /// ServiceAccount, so that nobody but its maker can replace it.
    pub fn of(token: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Payload {
            sub: String,
            exp: i64,
            iat: Option<i64>,
        }
        if token.len() > TOKEN_MAX {
            return None;
        }
        let mut parts = token.split('.');
        let (Some(_), Some(payload), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
            return None;
        };
        let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
        let payload: Payload = serde_json::from_slice(&payload).ok()?;
        let (namespace, name) = payload.sub.strip_prefix("system:serviceaccount:")?.split_once(':')?;
        let ends = Timestamp::from_second(payload.exp).ok()?;
        let issued = payload.iat.and_then(|iat| Timestamp::from_second(iat).ok());
        let lifetime = issued.map(|issued| ends.duration_since(issued));
        Some(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ends,
            lifetime: lifetime.filter(SignedDuration::is_positive).unwrap_or(LIFETIME),
        })
    }

    /// How long the next one shall live.
    pub fn next_lifetime(&self) -> SignedDuration {
        self.lifetime.max(LIFETIME_MIN)
    }

    /// How long after it was issued the next one is asked for: half of its life, so that a hub may be out of reach for
    /// the other half. Up to a tenth sooner, by a `random` part from 0 to 1, so that members do not come all at once.
    pub fn renew_after(&self, random: f64) -> SignedDuration {
        self.lifetime.mul_f64(0.5 - random.clamp(0.0, 1.0) / 10.0)
    }

    /// The pause after so many tries in a row have failed; the first is 1.
    pub fn retry_after(&self, failures: u32) -> SignedDuration {
        let doubled = RETRY_MIN.saturating_mul(1 << failures.saturating_sub(1).min(10));
        // A short life allows no long pauses.
        doubled.min(RETRY_MAX.min(self.lifetime / 20).max(RETRY_MIN))
    }

    /// How it stands.
    pub fn standing(&self, now: Timestamp) -> Standing {
        let left = self.ends.duration_since(now);
        if !left.is_positive() {
            Standing::Ended
        } else if left < self.lifetime / 4 {
            Standing::Ending
        } else {
            Standing::Good
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(payload: &str) -> String {
        format!("head.{}.signature", URL_SAFE_NO_PAD.encode(payload))
    }

    fn claims(life: i64) -> Claims {
        let payload = format!(
            r#"{{"sub":"system:serviceaccount:fleet-system:east","iat":1000,"exp":{}}}"#,
            1000 + life
        );
        Claims::of(&token(&payload)).unwrap()
    }

    #[test]
    fn only_tokens_of_service_accounts_that_end_can_be_renewed() {
        let found = claims(3600);
        assert_eq!(
            (found.namespace.as_str(), found.name.as_str()),
            ("fleet-system", "east")
        );
        assert_eq!((found.ends.as_second(), found.lifetime.as_secs()), (4600, 3600));
        for other in [
            r#"{"sub":"system:serviceaccount:fleet-system:east"}"#,
            r#"{"sub":"somebody","exp":5}"#,
            "no JSON",
        ] {
            assert_eq!(Claims::of(&token(other)), None, "{other}");
        }
        assert_eq!(Claims::of("opaque"), None);
        assert_eq!(Claims::of("a.b.c.d"), None);
        assert_eq!(Claims::of(&"x".repeat(TOKEN_MAX + 1)), None);
        // Without a beginning, or with one after its end, its life is the usual one.
        for odd in ["", r#""iat":9000,"#] {
            let payload = format!(r#"{{"sub":"system:serviceaccount:a:b",{odd}"exp":5000}}"#);
            assert_eq!(Claims::of(&token(&payload)).unwrap().lifetime, LIFETIME);
        }
    }

    #[test]
    fn half_of_its_life_is_left_for_an_unreachable_hub() {
        let claims = claims(1000);
        assert_eq!(claims.renew_after(0.0).as_secs(), 500);
        assert_eq!(claims.renew_after(1.0).as_secs(), 400);
        assert_eq!(claims.next_lifetime().as_secs(), 1000);
        assert_eq!(super::tests::claims(60).next_lifetime(), LIFETIME_MIN);
    }

    #[test]
    fn tries_slow_down_but_never_outlast_a_short_life() {
        let month = claims(30 * 24 * 3600);
        let pauses: Vec<_> = (1..=9).map(|n| month.retry_after(n).as_secs()).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
        assert_eq!(month.retry_after(u32::MAX).as_secs(), 300);
        assert_eq!(claims(600).retry_after(9).as_secs(), 30);
        assert_eq!(claims(20).retry_after(9), RETRY_MIN);
    }

    #[test]
    fn the_last_quarter_is_worth_a_warning() {
        let claims = claims(1000);
        let at = |second| claims.standing(Timestamp::from_second(second).unwrap());
        assert_eq!(at(1000), Standing::Good);
        // A clock that is behind the hub's.
        assert_eq!(at(0), Standing::Good);
        assert_eq!(at(1751), Standing::Ending);
        assert_eq!(at(2000), Standing::Ended);
    }
}
