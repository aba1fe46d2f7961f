//! Programs that are refused, and why; placeholders; the presets that ship.

use super::*;
use proptest::prelude::*;

const METRIC: &str = "[[metric]]\nname = 'wall'\nmeasure = 'wall'\n";

fn entry(text: &str) -> Entry {
    toml::from_str(text).unwrap_or_else(|e| panic!("{e}"))
}

/// Key, problem and hint of a refusal.
fn refusal(text: &str) -> (String, String, String) {
    let error = entry(&format!("{text}\n{METRIC}")).program().unwrap_err();
    (error.key.to_owned(), error.problem, error.hint.unwrap())
}

fn values() -> Values {
    Values {
        dir: "/mnt/arm".into(),
        threads: 4,
        duration: Nanos::millis(1500),
        seed: 9,
        inputs: [("job".to_owned(), PathBuf::from("/proc/self/fd/5"))].into(),
    }
}

/// Loaded data differ if any input of their commands does; inputs of the measured command do not matter.
#[test]
fn load_key_depends_only_on_load_command_inputs() {
    let loaded = |prepare: &str, more: &str, threads| {
        let text = format!(
            "command = ['x', '-t{{threads}}', '{{input:run}}', '{{input:make}}']\nprepare = [[{prepare}]]\n{more}\n{METRIC}"
        );
        let program = entry(&text).program().unwrap();
        program.loaded(threads, Nanos::secs(1)).unwrap()
    };
    let run = |text: &str| format!("files = 3\ninputs = {{ run = '{text}', make = 'rows {{files}}' }}");
    let plain = loaded("'make', '{seed}'", &run("a"), 1);
    assert_eq!(
        plain,
        loaded("'make', '{seed}'", &run("b {threads}"), 8),
        "the script of the measured command is not loaded"
    );
    assert_ne!(loaded("'make', '{threads}'", &run("a"), 1), loaded("'make', '{threads}'", &run("a"), 8));
    let files = |count| loaded("'make', '{input:make}'", &run("a").replace('3', count), 1);
    assert_ne!(files("3"), files("4"), "an input that a command reads is");
    assert_ne!(plain, loaded("'make', '{seed}'", &format!("deadline = '9m'\n{}", run("a")), 1));
    // A text and a file that change places.
    let digest = format!("sha256:{}", "7".repeat(64));
    let file = format!("{{ file = '/dump', digest = '{digest}' }}");
    let swapped = |run: &str, make: &str| {
        let inputs = format!("inputs = {{ run = {run}, make = {make} }}");
        loaded("'make', '{input:make}', '{input:run}'", &inputs, 1)
    };
    assert_ne!(swapped("'x'", &file), swapped(&file, "'x'"));
    assert_ne!(swapped("'x'", &file), swapped("'x'", &format!("'{digest}'")));
    assert_ne!(swapped("'x'", &file), swapped("'x'", &file.replace('7', "8")));
    let nothing = entry(&format!("command = ['x']\n{METRIC}")).program().unwrap();
    assert_eq!(nothing.loaded(1, Nanos::secs(1)), None);
}

#[test]
fn every_placeholder_is_replaced() {
    let program = entry(&format!(
        "command = ['x', '{{dir}}/f', '-t{{threads}}', '{{duration}} {{duration_ms}}', '{{seed}}',
          '{{file_size}} {{file_size_bytes}} {{file_size_mib}}', '{{block_size}} {{block_size_bytes}}', '{{files}}',
          '{{input:job}}', '{{parameter:p}}', '{{{{}}}}']
         file_size = '1.5GiB'\nblock_size = '4KiB'\nfiles = 3\ninputs = {{ job = '' }}\nparameters = {{ p = '{{dir}}' }}
         {METRIC}"
    ))
    .program()
    .unwrap();
    let words = program.words(&program.command, &values()).unwrap();
    assert_eq!(
        words,
        [
            "x",
            "/mnt/arm/f",
            "-t4",
            "2 1500",
            "9",
            "1536M 1610612736 1536",
            "4K 4096",
            "3",
            "/proc/self/fd/5",
            // Replaced text is not scanned again.
            "{dir}",
            "{}"
        ]
    );
}

#[test]
fn exact_sizes_get_binary_suffix() {
    for (bytes, text) in
        [(0, "0"), (1000, "1000"), (1024, "1K"), (3 << 20, "3M"), (1 << 40, "1T"), (1025, "1025")]
    {
        assert_eq!(with_letter(Bytes(bytes)), text);
    }
}

#[test]
fn seed_is_positive_and_fits_31_bits() {
    let program = entry(&format!("command = ['x', '{{seed}}']\n{METRIC}")).program().unwrap();
    for seed in [0, 1, 0x7fff_ffff, u64::MAX] {
        let words = program.words(&program.command, &Values { seed, ..values() }).unwrap();
        assert!((1..0x7fff_ffff).contains(&words[1].parse::<u64>().unwrap()), "{seed}: {}", words[1]);
    }
}

#[test]
fn refusals_name_the_key_and_help() {
    let cases = [
        ("command = []", "command", "a command has 1 to 256 words", "sysbench"),
        ("", "command", "a command has 1 to 256 words", "sysbench"),
        ("command = ['./run.sh']", "command", "`./run.sh` is not a program", "absolute path"),
        ("command = ['{dir}/run']", "command", "`{dir}/run` is not a program", "absolute path"),
        ("command = ['dd if=x']", "command", "holds blanks", "each word"),
        ("command = ['a', '|', 'b']", "command", "`|` means nothing without a shell", "sh"),
        ("command = ['a', '{dirr}']", "command", "no placeholder `{dirr}`", "did you mean {dir}?"),
        ("command = ['a', '${x}']", "command", "no placeholder `{x}`", "{{ stands for a brace"),
        ("command = ['a', '{']", "command", "a single `{` in `{`", "{{"),
        ("command = ['a', 'b}']", "command", "a single `}` in `b}`", "}}"),
        ("command = ['a', '{files}']", "command", "asks for {files}", "add files = "),
        ("command = ['a', '{input:x}']", "command", "no input `x`", "inputs = { \"x\""),
        ("command = ['a', '{parameter:x}']", "command", "no parameter `x`", "parameters = { x"),
        ("command = ['a']\ninputs = { x = '' }", "inputs", "no command uses the input `x`", "{input:x}"),
        ("command = ['a', '{input:x}']\ninputs = { x = '{y}' }", "inputs", "no placeholder `{y}`", "{{"),
        ("command = ['a', '{input:x}']\ninputs = { x = '{input:x}' }", "inputs", "no input `x`", ""),
        (
            "command = ['a', '{input:a/b}']\ninputs = { 'a/b' = '' }",
            "inputs",
            "not valid as the name",
            "job.fio",
        ),
        (
            "command = ['a']\nparameters = { x = '' }",
            "parameters",
            "nothing uses the parameter `x`",
            "{parameter:x}",
        ),
        ("command = ['a']\ndeadline = '2d'", "deadline", "between 1s and 1d", "10m"),
        ("command = ['a']\ndirect = true", "direct", "belongs to kind", "command"),
        ("command = ['a']\nprepare = [[]]", "prepare", "1 to 256 words", ""),
        ("command = ['a']\nversion = ['-v']", "version", "`-v` is not a program", ""),
        (
            "command = ['a']\n[[metric]]\nname = 'wall'\nmeasure = 'cpu'",
            "metric",
            "two metrics are called `wall`",
            "",
        ),
    ];
    for (text, key, problem, hint) in cases {
        let result = refusal(text);
        assert_eq!(result.0, key, "{text}: {result:?}");
        assert!(result.1.contains(problem) && result.2.contains(hint), "{text}: {result:?}");
    }
    let error = entry("command = ['a']").program().unwrap_err();
    assert_eq!((error.key, error.problem.as_str()), ("metric", "a program has 1 to 64 metrics"));
}

#[test]
fn keys_of_a_program_belong_to_a_program() {
    for text in ["command = ['a']", "inputs = { x = '' }", "deadline = '1m'", METRIC] {
        let error = entry(&format!("kind = 'io'\n{text}")).resolve(4).unwrap_err();
        assert!(error.problem.contains("belongs to kind = \"program\""), "{text}: {error:?}");
    }
}

#[test]
fn shipped_programs_read_and_print_the_same() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads");
    let mut count = 0;
    for file in std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
        let text = std::fs::read_to_string(&file).unwrap();
        if !text.contains("kind = \"program\"") {
            continue;
        }
        count += 1;
        let entry = entry(&text);
        let program = entry.program().unwrap_or_else(|e| panic!("{}: {}", file.display(), e.problem));
        assert!(entry.about.as_ref().is_some_and(|about| about.len() > 20), "{}", file.display());
        let is_tool = file.file_name().unwrap().to_str().unwrap().starts_with("real-");
        assert_eq!(is_tool, program.server.is_none(), "{}", file.display());
        assert!(!program.version.is_empty(), "{} prints its version", file.display());
        let again: Entry = toml::from_str(&toml::to_string(&entry).unwrap()).unwrap();
        assert_eq!(again, entry, "{}", file.display());
        let json = serde_json::to_string(&program).unwrap();
        assert_eq!(serde_json::from_str::<Program>(&json).unwrap(), program, "{}", file.display());
    }
    assert!(count >= 18, "{count}");
}

proptest! {
    #[test]
    fn any_text_is_replaced_or_refused(text in "([a-z{}:]|\\{dir\\}|\\{\\{|\\}\\}){0,20}") {
        let _ = replace(&text, |_| Ok("x".into()));
    }

    #[test]
    fn doubled_braces_unescape_to_single(text in "[a-z{}]{0,20}") {
        let doubled = text.replace('{', "{{").replace('}', "}}");
        prop_assert_eq!(replace(&doubled, |_| panic!("no placeholder")).unwrap(), text);
    }
}
