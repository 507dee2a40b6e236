//! Options of a keyspace, as text: `ttl=12h`.

use cleavedb::KeyspaceOptions;

use crate::{size, ttl, value_compression};

/// The options that all these texts set, over the defaults.
pub fn options<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<KeyspaceOptions, String> {
    let mut options = KeyspaceOptions::default();
    for text in texts {
        match text.split_once('=') {
            Some(("ttl", value)) => options.ttl = Some(ttl(value)?),
            Some(("min_separated", value)) => options.min_separated = Some(size(value)?),
            Some(("compression", value)) => options.compression = Some(value_compression(value)?),
            _ => {
                let names = "ttl, min_separated and compression, each as NAME=VALUE";
                return Err(format!("\"{text}\" is no option of a keyspace; there are {names}"));
            }
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cleavedb::ValueCompression;
    use std::time::Duration;

    #[test]
    fn every_option_of_a_keyspace_has_a_name() {
        let given = options(["ttl=90s", "min_separated=4KiB", "compression=lz4"]).unwrap();
        let expected = KeyspaceOptions {
            min_separated: Some(4096),
            ttl: Some(Duration::from_secs(90)),
            compression: Some(ValueCompression::Lz4),
        };
        assert_eq!(given, expected);
        for wrong in ["ttl", "ttl=", "ttl=long", "min_separated=-1", "compression=x", "colour=red"]
        {
            assert!(options([wrong]).is_err(), "{wrong}");
        }
    }
}
