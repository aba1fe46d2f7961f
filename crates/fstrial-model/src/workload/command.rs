//! Commands as lists of words: their validation. There is no shell.

use super::entry_error::{EntryError, entry_error};

/// Most words of one command.
const MAX_WORDS: usize = 256;
/// Most bytes of one word.
const MAX_WORD_BYTES: usize = 64 << 10;
/// Most commands of one key.
const MAX_COMMANDS: usize = 32;
/// Words that only a shell understands.
const SHELL_WORDS: [&str; 9] = ["|", "||", "&", "&&", "<", ">", ">>", "2>", "2>&1"];
const SHELL_HINT: &str =
    "programs are started without a shell; ask for one: command = [\"sh\", \"-c\", \"…\"]";

/// Refuses commands of a key that cannot be run anywhere, and too many.
pub(super) fn check_commands(key: &'static str, commands: &[Vec<String>]) -> Result<(), EntryError> {
    if commands.len() > MAX_COMMANDS {
        return Err(entry_error(
            key,
            format!("there are {} commands", commands.len()),
            format!("use at most {MAX_COMMANDS}"),
        ));
    }
    commands.iter().try_for_each(|command| check_command(key, command))
}

fn check_command(key: &'static str, command: &[String]) -> Result<(), EntryError> {
    let Some(program) = command.first().filter(|_| command.len() <= MAX_WORDS) else {
        return Err(entry_error(
            key,
            format!("a command has 1 to {MAX_WORDS} words"),
            "write command = [\"sysbench\", \"fileio\", …]",
        ));
    };
    let relative = program.contains('/') && !program.starts_with('/');
    if program.is_empty() || relative || program.contains(['{', '}']) || program.starts_with('-') {
        return Err(entry_error(
            key,
            format!("`{program:.80}` is not a program"),
            "the first word is a name that is looked for in PATH, or an absolute path",
        ));
    }
    if program.contains(char::is_whitespace) {
        return Err(entry_error(
            key,
            format!("`{program:.80}` holds blanks"),
            "write each word separately: [\"dd\", \"if=/dev/zero\"]",
        ));
    }
    for word in command {
        if word.len() > MAX_WORD_BYTES || word.contains('\0') {
            return Err(entry_error(
                key,
                "a word is longer than 64 KiB or holds a zero byte",
                "give long texts as inputs",
            ));
        }
        if SHELL_WORDS.contains(&word.as_str()) {
            return Err(entry_error(key, format!("`{word}` means nothing without a shell"), SHELL_HINT));
        }
    }
    Ok(())
}
