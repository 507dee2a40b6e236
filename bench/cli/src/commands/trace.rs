//! `trace`: recording and showing operations.

use cleavedb_bench::trace::Summary;
use cleavedb_bench::transcript::transcribe;
use cleavedb_bench::workload::select;
use cleavedb_cli::console::Console;
use cleavedb_cli::failure::{Exit, Result};
use cleavedb_units as units;
use serde_json::json;

use crate::failure::failed;
use crate::trace_args::TraceAction;

pub(super) fn run(action: &TraceAction, console: &Console) -> Result<Exit> {
    match action {
        TraceAction::Record { out, bench } => {
            let (config, workloads) =
                (bench.config().map_err(failed)?, select(&bench.workload).map_err(failed)?);
            let operations = transcribe(&config, &workloads, out).map_err(failed)?;
            if console.json() {
                console.json_line(&json!({ "trace": out, "operations": operations }))?;
            } else {
                let operations = units::thousands(operations as f64);
                console.line(format!("{operations} operations in {}", out.display()))?;
            }
        }
        TraceAction::Show { file } => {
            let summary = Summary::of(file).map_err(failed)?;
            if console.json() {
                console.json_line(&summary)?;
            } else {
                console.line(summary.text())?;
            }
        }
    }
    Ok(Exit::Done)
}
