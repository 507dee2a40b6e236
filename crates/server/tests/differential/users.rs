//! Users and their rules: replies of both servers to fixed scripts.

use std::collections::BTreeSet;

use crate::Both;
use crate::fixed::{assert_alike, assert_scripts};
use crate::wire::Value;

/// Scripts, with an empty line between two.
const SCRIPTS: &str = r#"
ACL WHOAMI
ACL LIST
ACL USERS
ACL GETUSER default
ACL GETUSER nothing
ACL HELP
ACL CAT
ACL CAT nothing
ACL CAT a b
ACL NOTHING
ACL
ACL SETUSER
ACL GENPASS 0
ACL GENPASS 4097
ACL GENPASS x
ACL GENPASS 1 2
ACL LOAD
ACL SAVE
ACL DELUSER default
ACL DELUSER nothing default
ACL DELUSER nothing
ACL SETUSER "a b"
ACL SETUSER "a\x00b"
ACL LOG RESET
ACL LOG 0
ACL LOG x
ACL LOG 1 2
COMMAND LIST FILTERBY ACLCAT nothing
COMMAND LIST FILTERBY ACLCAT

ACL SETUSER fresh
ACL GETUSER fresh
ACL LIST
ACL SETUSER fresh reset
ACL LIST
ACL SETUSER fresh on >one >two #4e1243bd22c66e76c2ba9eddc1f91394e57f9f83
ACL SETUSER fresh on >one >two
ACL SETUSER fresh >one skip-sanitize-payload
ACL GETUSER fresh
ACL SETUSER fresh <three
ACL SETUSER fresh !3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3
ACL SETUSER fresh <one
ACL LIST
ACL SETUSER fresh #3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3
ACL SETUSER fresh #3FC4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3
ACL LIST
ACL SETUSER fresh nopass
ACL GETUSER fresh
ACL SETUSER fresh resetpass
ACL LIST
ACL DELUSER fresh fresh
ACL USERS

ACL SETUSER keys ~a ~b* %R~read:* %W~write:* %RW~both %rw~again
ACL GETUSER keys
ACL SETUSER keys %R~w %W~w %W~a ~a
ACL LIST
ACL SETUSER keys allkeys ~x
ACL SETUSER keys ~*
ACL SETUSER keys %R~x
ACL SETUSER keys %X~x
ACL SETUSER keys resetkeys %X~x
ACL SETUSER keys %RR~x
ACL SETUSER keys "~a b"
ACL SETUSER keys &a &b* &a
ACL LIST
ACL SETUSER keys &* &a
ACL SETUSER keys allchannels
ACL SETUSER keys &a
ACL LIST
ACL SETUSER keys "&a b" resetchannels
ACL SETUSER keys resetchannels "&a b"
ACL SETUSER keys ALLKEYS AllChannels +@ALL ON NoPass
ACL LIST
ACL DELUSER keys

ACL SETUSER some +get
ACL LIST
ACL SETUSER some -get +@read
ACL LIST
ACL SETUSER some -@read +@string
ACL LIST
ACL SETUSER some +@all -flushall
ACL GETUSER some
ACL SETUSER some +@all -@dangerous
ACL LIST
ACL SETUSER some -@all +@all -@all +config|get
ACL LIST
ACL SETUSER some -config +select|0 +select|1 +select|0
ACL LIST
ACL SETUSER some +select
ACL LIST
ACL SETUSER some -select|0
ACL SETUSER some +config|get|x
ACL SETUSER some +config|nothing
ACL SETUSER some +nothing
ACL SETUSER some -nothing
ACL SETUSER some +@nothing
ACL SETUSER some -@nothing
ACL SETUSER some +
ACL SETUSER some +@
ACL SETUSER some nothing
ACL SETUSER some +select|
ACL SETUSER some +get nothing
ACL LIST
ACL SETUSER some allcommands
ACL LIST
ACL SETUSER some nocommands
ACL SETUSER some ""
ACL LIST
ACL SETUSER some +@hash +@transaction
ACL LIST
ACL SETUSER some -@all +@keyspace -keys
ACL LIST
ACL SETUSER some +@all -@write
ACL LIST
ACL SETUSER some +@all -config
ACL LIST
ACL SETUSER some -@all +acl|whoami
ACL LIST
ACL DELUSER some

ACL SETUSER few on nopass ~a +@all
ACL DRYRUN few EVAL x 1 b
ACL DRYRUN few EVAL x 0 b
ACL DRYRUN few EVAL x 5 b
ACL DRYRUN few EVAL x -1 b
ACL DRYRUN few EVAL x y b
ACL DRYRUN few FCALL x 5 b
ACL DRYRUN few ZUNIONSTORE b 1 a
ACL DRYRUN few ZUNIONSTORE b 0 a
ACL DRYRUN few ZUNIONSTORE b 5 a
ACL DRYRUN few ZINTERSTORE b y a
ACL DRYRUN few ZINTER 2 b
ACL DRYRUN few SINTERCARD 5 b
ACL DRYRUN few BLMPOP 0 5 b left
ACL DELUSER few

ACL SETUSER more on nopass (+get ~a) (+set %W~b)
ACL GETUSER more
ACL LIST
ACL SETUSER more ( +mget ~c ~d )
ACL LIST
ACL SETUSER more (+get ~e
ACL SETUSER more (nothing)
ACL SETUSER more ()
ACL LIST
ACL SETUSER more clearselectors
ACL LIST
ACL DELUSER more

ACL SETUSER dry on nopass +get +set +mget +copy +rename +select|0
ACL SETUSER dry ~k* %R~r* %W~w* (+strlen ~s) (+getdel ~k ~s)
ACL DRYRUN dry GET k1
ACL DRYRUN dry GET x
ACL DRYRUN dry GET r
ACL DRYRUN dry GET w
ACL DRYRUN dry SET w v
ACL DRYRUN dry SET w v GET
ACL DRYRUN dry SET r v
ACL DRYRUN dry MGET k r w
ACL DRYRUN dry COPY r w
ACL DRYRUN dry COPY w r
ACL DRYRUN dry RENAME k w
ACL DRYRUN dry RENAME w k
ACL DRYRUN dry DEL k
ACL DRYRUN dry STRLEN s
ACL DRYRUN dry STRLEN k
ACL DRYRUN dry GETDEL s
ACL DRYRUN dry GETDEL x
ACL DRYRUN dry SELECT 0
ACL DRYRUN dry SELECT 1
ACL DRYRUN dry AUTH x
ACL DRYRUN dry PING
ACL DRYRUN dry CONFIG GET x
ACL DRYRUN dry CONFIG
ACL DRYRUN dry NOTHING
ACL DRYRUN nothing GET k
ACL DRYRUN dry GET
ACL DRYRUN default FLUSHALL
ACL SETUSER dry +sort +bitfield +pfcount +spublish +ssubscribe +sunsubscribe resetchannels &c
ACL DRYRUN dry SORT r
ACL DRYRUN dry SORT r STORE w
ACL DRYRUN dry SORT w STORE r
ACL DRYRUN dry BITFIELD r GET u8 0
ACL DRYRUN dry BITFIELD r GET u8 0 INCRBY u8 0 1
ACL DRYRUN dry BITFIELD r SET u8 0 1
ACL DRYRUN dry PFCOUNT r k
ACL DRYRUN dry PFCOUNT r w
ACL DRYRUN dry SPUBLISH c m
ACL DRYRUN dry SPUBLISH k m
ACL DRYRUN dry SSUBSCRIBE c k
ACL DRYRUN dry SUNSUBSCRIBE x
ACL DELUSER dry

ACL SETUSER alice on >secret +@all -@dangerous ~a* &*
AUTH alice wrong
AUTH nothing secret
AUTH alice secret
ACL WHOAMI
SET a 1
SET b 1
KEYS *
CONFIG GET maxclients
MGET a b
MULTI
SET a 2
SET b 2
EXEC
MULTI
SET a 3
EXEC
GET a
WATCH b
SELECT 1
ACL DRYRUN alice GET a
HELLO 3 AUTH alice wrong SETNAME al
CLIENT GETNAME
ACL WHOAMI
RESET
ACL WHOAMI
ACL DELUSER alice

ACL SETUSER bob on >pw allkeys +get +acl|setuser +multi +exec +set +auth
AUTH bob pw
MULTI
SET k v
ACL SETUSER bob -get
GET k
EXEC
SET k w
GET k
MULTI
ACL SETUSER bob -exec
EXEC
EXEC
RESET
ACL SETUSER bob off
AUTH bob pw
ACL SETUSER bob on nopass
AUTH bob anything
ACL SETUSER bob +acl|deluser
ACL DELUSER bob
PING

ACL SETUSER default -get
GET a
ACL SETUSER default +get >pass
AUTH default pass
CONFIG GET requirepass
ACL SETUSER default nopass
AUTH x
"#;

#[test]
fn users_are_those_of_redis() {
    let Some(both) = Both::start(None) else { return };
    assert_scripts(&both, SCRIPTS);
}

/// The fields of a denial, without the age and the client's address.
fn denials(value: &Value) -> Vec<Vec<String>> {
    let fields = |entry: &Value| {
        let shown: Vec<_> = entry.items().unwrap().iter().map(Value::shown).collect();
        let client = shown.last().unwrap();
        assert!(client.contains(" user=") && client.contains("addr="), "{client}");
        assert_eq!(&shown[10], "$11 \"age-seconds\"");
        shown[..10].to_vec()
    };
    value.items().unwrap().iter().map(fields).collect()
}

#[test]
fn what_is_denied_is_noted_alike() {
    let Some(both) = Both::start(None) else { return };
    let mut admin = both.pair();
    admin.call(&[b"ACL", b"SETUSER", b"eve", b"on", b">pw", b"+@all", b"-info", b"~a*"]);
    let denied =
        ["AUTH eve no", "auth eve no", "HELLO 2 AUTH eve no", "AUTH eve pw", "INFO", "info"];
    let more =
        ["GET b", "MULTI", "GET c", "INFO", "DISCARD", "GET b", "CONFIG GET x", "MSET a 1 c 2"];
    assert_alike(&both, &[&denied[..], &more].concat());
    let [ours, theirs] = admin.call(&[b"ACL", b"LOG"]);
    assert_eq!(denials(&ours), denials(&theirs));
    assert_eq!(denials(&ours).len(), 8, "{ours:?}");
    admin.call(&[b"CONFIG", b"SET", b"acllog-max-len", b"3"]);
    assert_alike(&both, &["AUTH eve pw", "INFO", "GET d"]);
    for asked in [&[&b"ACL"[..], b"LOG"][..], &[b"ACL", b"LOG", b"2"], &[b"ACL", b"LOG", b"-1"]] {
        let [ours, theirs] = admin.call(asked);
        assert_eq!(denials(&ours), denials(&theirs));
    }
}

/// The texts of a reply, in no order.
fn texts(value: &Value) -> BTreeSet<String> {
    crate::bulks(value).into_iter().map(|text| String::from_utf8(text).unwrap()).collect()
}

#[test]
fn categories_are_those_of_redis() {
    let Some(both) = Both::start(None) else { return };
    let mut pair = both.pair();
    let known = texts(&pair.ours.call(&[b"COMMAND", b"LIST"]));
    let [names, _] = pair.call(&[b"ACL", b"CAT"]);
    assert_eq!(texts(&names).len(), 21);
    for name in texts(&names) {
        let listed = pair.call(&[b"ACL", b"CAT", name.to_uppercase().as_bytes()]);
        let [ours, theirs] = listed.map(|listed| texts(&listed));
        let of_redis = ours.iter().filter(|name| !crate::is_own(name)).cloned().collect();
        assert_eq!(&theirs & &known, of_redis, "{name}");
        let filtered = [&b"COMMAND"[..], b"LIST", b"FILTERBY", b"ACLCAT", name.as_bytes()];
        assert_eq!(texts(&pair.ours.call(&filtered)), ours, "{name}");
    }
}
