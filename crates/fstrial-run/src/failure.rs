//! Attribution of a run's failure, from its error.

use fstrial_engine::EngineError;
use fstrial_model::{
    job::{FailureKind, RunFailure},
    measurement::Stage,
    units::Bytes,
};
use fstrial_stack::StackError;

/// The origin of a stack error determines its attribution.
pub(super) fn stack_failure(stage: Stage, error: &StackError) -> RunFailure {
    let kind = match (error, stage) {
        (StackError::Corrupt { .. }, _) => FailureKind::ArmFailed,
        (_, Stage::Unmount | Stage::Detach) => FailureKind::CleanUp,
        (StackError::Deadline { .. } | StackError::Interrupted, _) => FailureKind::Lost,
        (
            StackError::MissingProgram { .. }
            | StackError::UnknownToKernel { .. }
            | StackError::Lacking { .. },
            _,
        ) => FailureKind::HostLacks,
        (StackError::Io { source, .. }, _) if source.kind() == std::io::ErrorKind::PermissionDenied => {
            FailureKind::HostLacks
        }
        (StackError::Io { .. }, Stage::Attach) => FailureKind::Lost,
        (StackError::Io { .. }, Stage::Settle) => FailureKind::ArmFailed,
        (
            StackError::Command { .. }
            | StackError::Io { .. }
            | StackError::Refused { .. }
            | StackError::Untrusted { .. }
            | StackError::Unable { .. },
            _,
        ) => FailureKind::ArmRefused,
    };
    RunFailure { kind, stage, what: error.to_string(), hint: error.hint() }
}

/// The kernel killed a process of the load because the limit for its memory was reached: an outcome of the arm, as how
/// much is needed depends on the filesystem, too.
pub(super) fn out_of_memory(stage: Stage, limit: Bytes) -> RunFailure {
    RunFailure {
        kind: FailureKind::ArmFailed,
        stage,
        what: format!(
            "the load ran out of memory in the stage `{stage}`: its limit of {} was reached, nothing more could be freed, and \
             the kernel killed a process of it",
            limit.human()
        ),
        hint: Some(
            "raise the limit (memory of the trial or of the arm), or lower threads, depth, block_size or cache"
                .into(),
        ),
    }
}

/// The same of an error of the load engine.
pub(super) fn engine_failure(stage: Stage, error: &EngineError) -> RunFailure {
    let kind = match error {
        EngineError::ClockDrifted { .. } => FailureKind::Lost,
        EngineError::Layout { .. } | EngineError::Damaged { .. } => FailureKind::ArmFailed,
        EngineError::Impossible { .. }
        | EngineError::NoSpace { .. }
        | EngineError::DirectUnsupported { .. }
        | EngineError::UringUnavailable { .. }
        | EngineError::AioUnavailable { .. }
        | EngineError::FallocateUnsupported { .. }
        | EngineError::Limit { .. } => FailureKind::LoadRefused,
    };
    // The other errors have their cause in their name.
    let cause = match error {
        EngineError::Layout { source, .. } => format!(": {source}"),
        _ => String::new(),
    };
    RunFailure { kind, stage, what: format!("{error}{cause}"), hint: error.hint().map(str::to_owned) }
}
