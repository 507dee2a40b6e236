//! The engines that can be run, each by a program of its own: this one for the presets, and
//! `bench-peers` where it is found.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{BenchError, Result};

/// The program that runs the peers.
const PEERS: &str = "bench-peers";
/// What stands behind the name of an engine that runs only where it is named.
const EXTRA: &str = "extra";
/// Where `cargo` puts it, seen from the root of a checkout.
const PEERS_BUILT: &str = "bench/target/release/bench-peers";

/// An engine, and how it is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name of the engine in results.
    pub engine: String,
    /// The program.
    pub program: PathBuf,
    /// The arguments of the program before those of the workloads.
    pub arguments: Vec<String>,
    /// Whether it runs only where it is named.
    pub extra: bool,
}

impl Target {
    /// A peer, run by `program`.
    fn peer(program: &Path, engine: &str) -> Self {
        Self {
            engine: engine.to_owned(),
            program: program.to_owned(),
            arguments: vec!["--engine".to_owned(), engine.to_owned()],
            extra: false,
        }
    }

    /// The engine of this target with `options`, pairs of name and value with `+` between them, in
    /// its name.
    fn with(&self, options: &str) -> Self {
        let mut target = self.clone();
        for option in options.split('+').filter(|option| !option.is_empty()) {
            target.engine += &format!("+{option}");
            target.arguments.extend(["--option".to_owned(), option.to_owned()]);
        }
        target
    }

    /// The command for `arguments`, as typed in a shell.
    pub fn command(&self, arguments: &[String]) -> String {
        let program = self.program.file_name().unwrap_or(self.program.as_os_str());
        let words = self.arguments.iter().chain(arguments);
        words.fold(program.to_string_lossy().into_owned(), |command, word| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_=,./:+".contains(c);
            if !word.is_empty() && word.chars().all(plain) {
                format!("{command} {word}")
            } else {
                format!("{command} '{}'", word.replace('\'', r"'\''"))
            }
        })
    }
}

/// The program that runs the peers: `given`, or beside this program, or where a checkout has it, or
/// on the search path; `None` if it is nowhere.
pub fn find_peers(given: Option<&Path>) -> Result<Option<PathBuf>> {
    if let Some(path) = given {
        let missing = || {
            let path = path.display();
            BenchError::Usage(format!("--peers: there is no program {path}"))
        };
        // A bare name would be looked for on the search path, and found to be another program.
        return path.canonicalize().map(Some).map_err(|_| missing());
    }
    let beside = env::current_exe().ok().and_then(|own| Some(own.parent()?.join(PEERS)));
    let searched = env::var_os("PATH").unwrap_or_default();
    let searched = env::split_paths(&searched).map(|folder| folder.join(PEERS));
    let mut places = beside.into_iter().chain([PathBuf::from(PEERS_BUILT)]).chain(searched);
    Ok(places.find_map(|place| place.is_file().then(|| place.canonicalize().ok())?))
}

/// The engines that `program` can run; the error says why there are none.
pub fn list_peers(program: &Path) -> Result<Vec<Target>, String> {
    let shown = program.display();
    let output = Command::new(program)
        .arg("--list-engines")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{shown} cannot be run: {error}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let words = words.lines().next().unwrap_or_default();
        return Err(format!("{shown} --list-engines: {}: {words}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let targets = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let target = Target::peer(program, words.next()?);
        Some(Target { extra: words.next() == Some(EXTRA), ..target })
    });
    Ok(targets.collect())
}

/// The targets that are called `names`, in that order; if there are no names all but the
/// extra ones. Options of an engine stand behind its name, as in `ktstore+record-cache=128MiB`: it
/// is another engine then.
pub fn choose(targets: Vec<Target>, names: &[String]) -> Result<Vec<Target>> {
    if names.is_empty() {
        return Ok(targets.into_iter().filter(|target| !target.extra).collect());
    }
    let find = |named: &String| {
        let (name, options) = named.split_once('+').unwrap_or((named, ""));
        // A preset is an engine of this program's name.
        let preset = format!("cleave-{name}");
        let called = |target: &&Target| target.engine == name || target.engine == preset;
        let found = targets.iter().find(called);
        found.map(|target| target.with(options)).ok_or_else(|| {
            let known: Vec<_> = targets.iter().map(|target| target.engine.as_str()).collect();
            let known = known.join(", ");
            BenchError::Usage(format!("no engine is called \"{name}\"; found: {known}"))
        })
    };
    let mut chosen: Vec<Target> = Vec::new();
    for target in names.iter().map(find) {
        let target = target?;
        if chosen.contains(&target) {
            let engine = target.engine;
            return Err(BenchError::Usage(format!("the engine {engine} is named twice")));
        }
        chosen.push(target);
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Target, choose, find_peers, list_peers};

    #[test]
    fn engines_are_chosen_by_name_and_order() {
        let targets = ["a", "b", "c"].map(|name| Target::peer(Path::new("/x/peers"), name));
        let names = |list: &[&str]| -> Vec<String> {
            let list: Vec<_> = list.iter().map(|&name| name.to_owned()).collect();
            let chosen = choose(targets.to_vec(), &list).unwrap();
            chosen.into_iter().map(|target| target.engine).collect()
        };
        assert_eq!(names(&[]), ["a", "b", "c"]);
        assert_eq!(names(&["c", "a"]), ["c", "a"]);
        let extra = Target { extra: true, ..targets[1].clone() };
        let with = [targets[0].clone(), extra.clone()];
        assert_eq!(choose(with.to_vec(), &[]).unwrap(), with[..1]);
        assert_eq!(choose(with.to_vec(), &["b".to_owned()]).unwrap(), [extra]);
        let preset = Target { engine: "cleave-p".to_owned(), ..targets[2].clone() };
        let presets = vec![preset];
        assert_eq!(choose(presets.clone(), &["p".to_owned()]).unwrap(), presets);
        let twice = choose(presets, &["p", "cleave-p"].map(str::to_owned)).unwrap_err();
        assert!(twice.to_string().contains("cleave-p is named twice"), "{twice}");
        let options = choose(targets.to_vec(), &["a", "a+b=1+c=2:3"].map(str::to_owned)).unwrap();
        assert_eq!(options[0], targets[0]);
        assert_eq!(options[1].engine, "a+b=1+c=2:3");
        let words = "--engine a --option b=1 --option c=2:3";
        assert_eq!(options[1].arguments.join(" "), words);
        let unknown = choose(targets.to_vec(), &["d".to_owned()]).unwrap_err().to_string();
        assert!(unknown.contains("a, b, c"), "{unknown}");
    }

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        let target = Target::peer(Path::new("/x/bench-peers"), "e");
        let words = ["-w", "load", "it's", ""].map(str::to_owned);
        assert_eq!(target.command(&words), r"bench-peers --engine e -w load 'it'\''s' ''");
    }

    #[test]
    fn a_program_that_cannot_list_is_quoted() {
        let words = list_peers(Path::new("cat")).unwrap_err();
        assert!(words.contains("cat --list-engines: exit") && words.contains("option"), "{words}");
        let absent = list_peers(Path::new("no/such/peers")).unwrap_err();
        assert!(absent.contains("cannot be run"), "{absent}");
        // `echo` says its own argument.
        let names = list_peers(Path::new("echo")).unwrap();
        assert_eq!(names[0].arguments, ["--engine", "--list-engines"]);
    }

    #[test]
    fn a_program_that_was_named_must_be_there() {
        let missing = find_peers(Some(Path::new("no/such/peers"))).unwrap_err().to_string();
        assert!(missing.contains("no/such/peers"), "{missing}");
    }
}
