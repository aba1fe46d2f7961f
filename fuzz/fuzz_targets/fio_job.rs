//! fio job files: any text is understood, explained, a workload that settles if it is native, and written anew so that it
//! is understood again; or is an error that can be shown. What fio would be given names no path but the arm's directory.
#![no_main]

use fstrial_model::fio::{How, Surroundings, understand};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let variables = [("SIZE".to_owned(), "64m".to_owned())].into();
    let host = Surroundings { cpus: 4, memory_mib: 2048, page_bytes: 4096, variables };
    match understand("job.fio", text, &host) {
        Ok(understanding) => {
            assert!(!understanding.explain().is_empty());
            let settled = understanding.entry("job").resolve(1);
            assert!(settled.is_ok() || matches!(understanding.how, How::Foreign { .. }), "{settled:?}");
            let How::Foreign { jobs, .. } = understanding.how else { return };
            let given = jobs.render("/arm", 7).expect("a plain directory can be given");
            for line in given.lines().filter(|line| *line != "directory=/arm") {
                let value = line.split_once('=').map_or("", |(_, value)| value);
                let is_path = line.starts_with("filename") || line.starts_with("directory") || line.starts_with("name");
                assert!(!(is_path && value.contains('/')), "{line}");
                assert!(!value.contains("${") && !line.starts_with("include") && !line.starts_with("exec_"), "{line}");
            }
            // Everything but the directory is what a user might have written.
            let again = given.replace("verify_state_save=0\n", "");
            understand("again.fio", &again, &host).unwrap_or_else(|e| panic!("{}: {again}", e.message));
        }
        Err(error) => {
            let mut shown = String::new();
            let report = miette::GraphicalReportHandler::new();
            report.render_report(&mut shown, &*error).expect("an error can be shown");
        }
    }
});
