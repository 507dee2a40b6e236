//! `trace`: recorded operations, made and looked at.

use cleavedb_bench::trace::Summary;
use cleavedb_bench::transcript::transcribe;
use cleavedb_bench::units;
use cleavedb_bench::workload::select;
use serde_json::json;

use crate::args::TraceAction;
use crate::console::Console;
use crate::failure::{Exit, Result};

pub(super) fn run(action: &TraceAction, console: &Console) -> Result<Exit> {
    match action {
        TraceAction::Record { out, bench } => {
            let (config, workloads) = (bench.config()?, select(&bench.workload)?);
            let operations = transcribe(&config, &workloads, out)?;
            if console.json() {
                console.json_line(&json!({ "trace": out, "operations": operations }))?;
            } else {
                let operations = units::thousands(operations as f64);
                console.line(format!("{operations} operations in {}", out.display()))?;
            }
        }
        TraceAction::Show { file } => {
            let summary = Summary::of(file)?;
            if console.json() {
                console.json_line(&summary)?;
            } else {
                console.line(summary.text())?;
            }
        }
    }
    Ok(Exit::Done)
}
