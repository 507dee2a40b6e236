//! Times at which values expire: durations on the command line, moments in JSON.

use std::str::FromStr;
use std::time::{Duration, SystemTime};

pub use cleavedb_named::ttl;
use serde::de::{self, IntoDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A time to live, or none: `never`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlOrNever(pub Option<Duration>);

impl FromStr for TtlOrNever {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" { Ok(Self(None)) } else { ttl(text).map(|ttl| Self(Some(ttl))) }
    }
}

/// A moment as RFC 3339 writes it: in UTC, and read with any offset.
#[derive(Clone, Copy)]
pub struct Timestamp(pub SystemTime);

impl Timestamp {
    /// The moment of an expiry. What lies beyond the year 9999 is as good as never.
    pub fn of(expires: Option<SystemTime>) -> Option<Self> {
        let last = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799);
        expires.filter(|at| *at <= last).map(Self)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_rfc3339_millis(self.0))
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let failed = |why: String| de::Error::custom(format!("\"{text}\": {why}"));
        moment(&text).map(Self).map_err(failed)
    }
}

/// Reads a moment: in UTC, as in `2027-01-15T08:00:00Z`, or with an offset, `10:00:00+02:00`.
fn moment(text: &str) -> Result<SystemTime, String> {
    let text = text.to_ascii_uppercase();
    let utc = |text: &str| humantime::parse_rfc3339(text).map_err(|error| error.to_string());
    let Some((local, sign, offset)) = text.len().checked_sub(6).and_then(|at| {
        let (local, offset) = text.split_at_checked(at)?;
        let sign = offset.chars().next().filter(|sign| ['+', '-'].contains(sign))?;
        Some((local, sign, &offset[1..]))
    }) else {
        return utc(&text);
    };
    let number = |text: &str, limit: u64| text.parse::<u64>().ok().filter(|number| *number < limit);
    let offset = offset.split_once(':').and_then(|(hours, minutes)| {
        Some(Duration::from_secs(number(hours, 24)? * 3600 + number(minutes, 60)? * 60))
    });
    let offset = offset.ok_or("the offset from UTC must be as in +02:00")?;
    let local = utc(&format!("{local}Z"))?;
    let moment = if sign == '+' { local.checked_sub(offset) } else { local.checked_add(offset) };
    moment.ok_or_else(|| "out of range".to_owned())
}

/// When a value of a file expires: at a moment, or never, whatever its keyspace says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lasts(pub Option<SystemTime>);

impl Lasts {
    /// What has to be written of a value with this expiry, in a keyspace in which values may expire
    /// by themselves.
    pub fn of(expires: Option<SystemTime>, by_itself: bool) -> Option<Self> {
        let moment = Timestamp::of(expires);
        (moment.is_some() || by_itself).then(|| Self(moment.map(|Timestamp(at)| at)))
    }
}

impl Serialize for Lasts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            None => serializer.serialize_str("never"),
            Some(at) => Timestamp(at).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Lasts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match &*String::deserialize(deserializer)? {
            "never" => Ok(Self(None)),
            text => {
                Timestamp::deserialize(text.into_deserializer()).map(|Timestamp(at)| Self(Some(at)))
            }
        }
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
        let text = serde_json::to_string(&Timestamp(at)).unwrap();
        assert_eq!(text, "\"2027-01-15T08:00:00.123Z\"");
        assert_eq!(serde_json::from_str::<Timestamp>(&text).unwrap().0, at);
        for same in ["10:00:00.123+02:00", "00:30:00.123-07:30", "08:00:00.123-00:00"] {
            assert_eq!(moment(&format!("2027-01-15T{same}")), Ok(at), "{same}");
        }
        assert_eq!(moment("2027-01-15t08:00:00.123z"), Ok(at));
        assert!(moment("2027-01-15T08:00:00+24:00").unwrap_err().contains("+02:00"));
        for wrong in ["tomorrow", "", "+02:00", "2027-01-15T08:00:00+0200", "2027-01-15T08:00"] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
        let late = Some(at + Duration::from_secs(1 << 40));
        assert!(Timestamp::of(late).is_none());
        assert_eq!((Lasts::of(late, false), Lasts::of(late, true)), (None, Some(Lasts(None))));
        for lasts in [Lasts(Some(at)), Lasts(None)] {
            let text = serde_json::to_string(&lasts).unwrap();
            assert_eq!(serde_json::from_str::<Lasts>(&text).unwrap(), lasts, "{text}");
        }
    }
}
