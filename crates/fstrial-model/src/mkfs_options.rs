//! Options for mkfs that an arm may set: for each program those known to stay on the arm (in the filesystem's row).
//!
//! mkfs runs as root. Some of its options read a file or folder of the host (`mkfs.ext4 -d`, `mkfs.btrfs --rootdir`,
//! `mkfs.xfs -p`), name another device, overrule its checks (`-F`), or make nothing (`-n`). Their letters differ from
//! program to program and grow with them, so the list has the safe ones, and all else is refused: also a word that is
//! not an option, since mkfs would take it for a device or a size. Labels and UUIDs are not listed either: the host
//! finds filesystems to mount by them (`/etc/fstab`, `/dev/disk/by-label`).
//!
//! Words are read as getopt does: `-b 4096` and `-b4096`, `-vb 4096`, `--data=raid1` and `--data raid1`. Long options
//! must be written out: `--root` would be `--rootdir`.

use std::fmt::Write as _;

/// The options of one mkfs that stay on the arm.
#[derive(Debug, Clone, Copy)]
pub struct MkfsOptions {
    /// Letters that stand alone.
    pub alone: &'static str,
    /// Letters that take a value.
    pub valued: &'static str,
    /// Long options without their dashes; those that take a value end in `=`.
    pub long: &'static [&'static str],
    /// Options whose value is a list of words, some of which reach out: the safe ones.
    pub lists: &'static [(char, &'static [&'static str])],
}

/// Forbidden options of an arm, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedOptions {
    /// The problem, after "mkfs.ext4: ".
    pub problem: String,
    /// The remedy.
    pub hint: String,
}

impl MkfsOptions {
    /// Parses words as mkfs would, and returns them with each letter and each value in a separate word. `mkfs` is the
    /// program, for the error.
    ///
    /// # Errors
    /// One of them is not known to stay on the arm.
    pub fn read(&self, mkfs: &str, words: &[String]) -> Result<Vec<String>, RefusedOptions> {
        let mut read = Vec::with_capacity(words.len());
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if let Some(long) = word.strip_prefix("--") {
                self.read_long(mkfs, long, &mut words, &mut read)?;
            } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
                self.read_letters(mkfs, letters, &mut words, &mut read)?;
            } else {
                return Err(RefusedOptions {
                    problem: format!(
                        "`{word}` is not an option: {mkfs} would take it for a device or a size"
                    ),
                    hint: "write options with a dash, each followed by its value; the device is the trial's"
                        .into(),
                });
            }
        }
        Ok(read)
    }

    fn read_long<'a>(
        &self,
        mkfs: &str,
        word: &str,
        words: &mut impl Iterator<Item = &'a String>,
        read: &mut Vec<String>,
    ) -> Result<(), RefusedOptions> {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        let option = format!("--{name}");
        if value.is_none() && self.long.contains(&name) {
            read.push(option);
            return Ok(());
        }
        if !self.long.iter().any(|known| known.strip_suffix('=') == Some(name)) {
            return Err(self.unknown(mkfs, &option));
        }
        let value = value.or_else(|| words.next().map(String::as_str));
        let value = value.ok_or_else(|| valueless(mkfs, &option))?;
        read.push(format!("{option}={value}"));
        Ok(())
    }

    fn read_letters<'a>(
        &self,
        mkfs: &str,
        letters: &str,
        words: &mut impl Iterator<Item = &'a String>,
        read: &mut Vec<String>,
    ) -> Result<(), RefusedOptions> {
        for (at, letter) in letters.char_indices() {
            let option = format!("-{letter}");
            if self.alone.contains(letter) {
                read.push(option);
                continue;
            }
            if !self.valued.contains(letter) {
                return Err(self.unknown(mkfs, &option));
            }
            let joined = Some(&letters[at + letter.len_utf8()..]).filter(|rest| !rest.is_empty());
            let value = joined.or_else(|| words.next().map(String::as_str));
            let value = value.ok_or_else(|| valueless(mkfs, &option))?;
            self.check_list(mkfs, letter, value)?;
            read.extend([option, value.to_owned()]);
            break;
        }
        Ok(())
    }

    /// Refuses a word of a list that is not known to stay on the arm.
    fn check_list(&self, mkfs: &str, letter: char, value: &str) -> Result<(), RefusedOptions> {
        let Some((_, known)) = self.lists.iter().find(|(list, _)| *list == letter) else { return Ok(()) };
        let name = |word: &str| word.split('=').next().unwrap_or_default().to_owned();
        let Some(bad) = value.split(',').map(name).find(|name| !known.contains(&name.as_str())) else {
            return Ok(());
        };
        Err(RefusedOptions {
            problem: format!(
                "`{bad}` in the option `-{letter}` of {mkfs} is not allowed: it could reach outside the arm"
            ),
            hint: format!("allowed in `-{letter}`: {}", known.join(", ")),
        })
    }

    fn unknown(&self, mkfs: &str, option: &str) -> RefusedOptions {
        let mut known = String::new();
        for letter in self.alone.chars().chain(self.valued.chars()) {
            let _ = write!(known, " -{letter}");
        }
        for long in self.long {
            let _ = write!(known, " --{long}");
        }
        RefusedOptions {
            problem: format!(
                "the option `{option}` of {mkfs} is not allowed: it could reach outside the arm, force, label or make \
                 nothing"
            ),
            hint: format!("leave it out; allowed for {mkfs}:{known}"),
        }
    }
}

fn valueless(mkfs: &str, option: &str) -> RefusedOptions {
    RefusedOptions {
        problem: format!("the option `{option}` of {mkfs} needs a value: it would take the device for it"),
        hint: format!("write `{option}` and its value"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystem::{FILESYSTEMS, Filesystem};
    use proptest::prelude::*;

    fn options(name: &str) -> &'static MkfsOptions {
        Filesystem::named(name).unwrap().mkfs_options
    }

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn parses_options_like_mkfs() {
        let read = |name: &str, line: &str| options(name).read("mkfs", &words(line)).unwrap().join(" ");
        assert_eq!(
            read("ext4", "-b4096 -vE stride=16 -O ^has_journal"),
            "-b 4096 -v -E stride=16 -O ^has_journal"
        );
        assert_eq!(read("ext4", "-b -4096"), "-b -4096", "a value may begin with a dash");
        assert_eq!(read("btrfs", "--data raid1 --mixed -n16k"), "--data=raid1 --mixed -n 16k");
        assert_eq!(
            read("xfs", "-d agcount=4,noalign -l size=64m -r extsize=1m"),
            "-d agcount=4,noalign -l size=64m -r extsize=1m"
        );
    }

    #[test]
    fn dangerous_mkfs_options_are_refused_in_every_form() {
        for (name, lines) in [
            (
                "ext4",
                "-d class|-dclass|-qd class|-F|-qF|-Fq|-n|-S|-z undo|-c|-cc|-l list|-J device=x|-Jdevice=x|-J \
                 size=4,device=x|-E offset=4096|-E stride=1,root_owner=1:1|-e panic|-L home|-U random|-M mnt|-V|sdb|-b 4096 \
                 sdb|-- sdb|-|-E|-b",
            ),
            (
                "xfs",
                "-f|-Kf|-p proto|-pproto|-c options=x|-coptions=x|-d name=x|-d file|-d file=1|-dfile|-d \
                 agcount=4,file|-l logdev=x|-l name=x|-l file|-r rtdev=x|-r name=x|-r file|-L x|-N|-V|-C",
            ),
            (
                "btrfs",
                "-f|--force|--forc|-r class|-rclass|-qr class|--rootdir class|--rootdir=class|--root \
                 class|--root=class|--shrink|--subvol x|--inode-flags x|-L x|--label=x|-U 1|--uuid 1|-V|--version|--help|--quiet=x|--data",
            ),
            ("f2fs", "-c sdb|-f|-S|-l x|-U 1|-R 0:0|-V"),
            ("jfs", "-j sdb|-J device=x|-f|-c|-L x"),
            ("reiserfs", "-j sdb|--journal-device=sdb|-B list|--bad-blocks list|-f|-ff|-u 1|-l x|-d"),
            ("nilfs2", "-c|-f|-n|-L x|-U 1"),
            ("bcachefs", "--source=class|--source class|--force|-f|-L x|--label=x|--uuid=1|--encrypted"),
            ("exfat", "-L x|-U 1|-V|--volume-label=x"),
            ("vfat", "-C|-m text|-l list|-c|-n x|-i 1|-I|--offset=1|--mbr"),
            ("ntfs3", "-F|-n|-L x|-p 1|--force|--no-action"),
            ("udf", "--new-file|--no-write|-n|--bootarea=mbr|--lvid=x|-l x|--startblock=1"),
        ] {
            for line in lines.split('|') {
                assert!(options(name).read("mkfs", &words(line)).is_err(), "{line}");
            }
        }
    }

    #[test]
    fn mkfs_option_table_accepts_its_own_words() {
        for row in FILESYSTEMS {
            for (flag, list) in row.mkfs_words {
                for word in *list {
                    let line = [(*flag).to_owned(), format!("{word}=1")];
                    assert_eq!(row.mkfs_options.read(row.mkfs, &line).as_deref(), Ok(&line[..]));
                }
            }
            for flag in row.mkfs_joined {
                assert!(row.mkfs_options.valued.contains(&flag[1..]), "{} {flag}", row.name);
            }
        }
    }

    /// The getopt strings of the programs themselves (e2fsprogs 1.47, xfsprogs 6.1, btrfs-progs 6.2), and the letters
    /// that reach out, force, name, or make nothing.
    const REAL: [(&str, &str, &str); 3] = [
        ("ext4", "b:cd:e:g:i:jl:m:no:qr:s:t:vC:DE:FG:I:J:KL:M:N:O:R:ST:U:Vz:", "cdelnoFLMSUVz"),
        ("xfs", "b:c:d:i:l:L:m:n:KNp:qr:s:CfV", "cLNpCfV"),
        ("btrfs", "A:b:fl:n:s:m:d:L:R:O:r:U:VvMKq", "AfLrUV"),
    ];

    /// The letters and values found by getopt, or none at a word that is not an option.
    fn getopt(letters: &str, words: &[String]) -> Option<Vec<(char, String)>> {
        let mut result = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut rest = word.strip_prefix('-')?.chars();
            while let Some(letter) = rest.next() {
                let at = letters.find(letter)?;
                let mut value = String::new();
                if letters[at + 1..].starts_with(':') {
                    value = rest.by_ref().collect();
                    if value.is_empty() {
                        value.clone_from(words.next()?);
                    }
                }
                result.push((letter, value));
            }
        }
        Some(result)
    }

    fn hostile_words() -> impl Strategy<Value = Vec<String>> {
        let word = prop_oneof![
            "-[a-zA-Z]{1,3}",
            "-[a-zA-Z](class|sdb|size=1|agcount=2|stride=1|[.a-z=,]{1,8})",
            prop::sample::select(vec![
                "class",
                "..",
                "4096",
                "size=4k",
                "agcount=2",
                "file",
                "name=x",
                "size=4,device=x",
                "stride=1",
                "raid1",
            ])
            .prop_map(str::to_owned),
            "[a-z=,./-]{1,8}",
        ];
        prop::collection::vec(word, 1..5)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn accepted_options_contain_no_forbidden_letter(row in 0_usize..3, words in hostile_words()) {
            let (name, letters, bad) = REAL[row];
            let row = FILESYSTEMS.iter().find(|row| row.name == name).unwrap();
            if let Ok(read) = row.mkfs_options.read(row.mkfs, &words) && !words.iter().any(|word| word.starts_with("--")) {
                let result = getopt(letters, &words).expect("no word is a device");
                prop_assert!(result.iter().all(|(letter, _)| !bad.contains(*letter)), "{words:?}");
                prop_assert_eq!(getopt(letters, &read), Some(result), "what is passed on means the same");
            }
        }
    }
}
