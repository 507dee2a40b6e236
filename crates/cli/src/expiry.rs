//! Times at which values expire: durations on the command line, moments in JSON.

use std::str::FromStr;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A time to live as it is written: `30s`, `12h`, `1day 6h`.
pub fn ttl(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write it as in 90s, 15m, 12h or 7days"))
}

/// A time to live, or none: `never`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlOrNever(pub Option<Duration>);

impl FromStr for TtlOrNever {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" { Ok(Self(None)) } else { ttl(text).map(|ttl| Self(Some(ttl))) }
    }
}

/// A moment as RFC 3339 writes it, in UTC.
#[derive(Clone, Copy)]
pub struct Moment(pub SystemTime);

impl Moment {
    /// The moment of an expiry. What lies beyond the year 9999 is as good as never.
    pub fn of(expires: Option<SystemTime>) -> Option<Self> {
        let last = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799);
        expires.filter(|at| *at <= last).map(Self)
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_rfc3339_millis(self.0))
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let moment = humantime::parse_rfc3339(&text);
        moment.map(Self).map_err(|error| de::Error::custom(format!("\"{text}\": {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_moments_are_read_as_they_are_written() {
        assert_eq!(ttl("1h 30m").unwrap(), Duration::from_secs(5400));
        assert_eq!("never".parse(), Ok(TtlOrNever(None)));
        assert_eq!("1s".parse(), Ok(TtlOrNever(Some(Duration::from_secs(1)))));
        assert!(ttl("soon").unwrap_err().contains("90s"));
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_800_000_000_123);
        let text = serde_json::to_string(&Moment(at)).unwrap();
        assert_eq!(text, "\"2027-01-15T08:00:00.123Z\"");
        assert_eq!(serde_json::from_str::<Moment>(&text).unwrap().0, at);
        assert!(serde_json::from_str::<Moment>("\"tomorrow\"").is_err());
        assert!(Moment::of(Some(at + Duration::from_secs(1 << 40))).is_none());
    }
}
