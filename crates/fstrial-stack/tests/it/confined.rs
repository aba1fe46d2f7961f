//! A confined program on a real arm: the calls it is denied, and that none of its processes holds the device
//! afterwards.

use crate::support::{Background, Lab, MountGuard, arm, assert_torn_down, attach, isolated, skip};
use fstrial_model::units::Nanos;
use fstrial_stack::{command, confined::Sandbox, isolation, stack::ArmTarget};
use rustix::fs::{CWD, FileType, Mode};
use std::{
    fs::{self, File, Permissions},
    net::TcpListener,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::{PermissionsExt, symlink},
            net::{SocketAddr, UnixListener},
        },
    },
    path::{Path, PathBuf},
};
use tempfile::TempDir;

fn message(place: &Sandbox, words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let ended = place.run(&words, &[], Nanos::secs(60)).unwrap_or_else(|e| panic!("{e}"));
    format!("{}{}", ended.finished.stdout, ended.finished.stderr)
}

fn shell(place: &Sandbox, script: &str) -> String {
    message(place, &["sh", "-c", script])
}

#[test]
fn sandbox_allows_writes_only_to_its_folder() {
    isolated(|| {
        let lab = Lab::new();
        let arm = lab.folder("arm");
        let place = Sandbox::make(&arm).unwrap();
        let device = lab.device("disk", 8);
        let targets = format!(
            "/ /etc /usr /var /tmp /root /proc/sys /sys/kernel {} {} {}",
            isolation_cover(),
            arm.display(),
            lab.path("").display()
        );
        let script = format!(
            "for d in {targets}; do (echo x > $d/fstrial-escape) 2>/dev/null && echo wrote $d; done
             (echo x > {device}) 2>/dev/null && echo wrote the device
             (echo b > /proc/sysrq-trigger) 2>/dev/null && echo wrote sysrq
             (echo 3 > /proc/sys/vm/drop_caches) 2>/dev/null && echo dropped caches
             mount -t tmpfs x . 2>/dev/null && echo mounted
             kill -9 {pid} 2>/dev/null && echo killed
             unshare -r true 2>/dev/null && unshare -r mount -o remount,rw / 2>/dev/null && echo remounted
             id -u; id -G; grep -E '^(CapPrm|CapBnd|NoNewPrivs)' /proc/self/status | head -1
             cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '
             echo mine > file && cat file && echo $$",
            device = device.path().display(),
            pid = std::process::id(),
        );
        let message = shell(&place, &script);
        assert_eq!(message, "wrote /tmp\n65534\n65534\nCapPrm:\t0000000000000000\nlo\nmine\n1\n");
        assert!(!Path::new("/tmp/fstrial-escape").exists(), "that was a /tmp of its own");
        assert_eq!(fs::read_to_string(place.folder().join("file")).unwrap(), "mine\n");
        // And this process, which shut it in, is as free as before.
        fs::write(arm.join("free"), "x").unwrap();
        assert!(Path::new("/sys/class/net").read_dir().unwrap().count() >= 1);
        device.close();
    });
}

fn isolation_cover() -> &'static str {
    ["/mnt", "/media", "/srv"].into_iter().find(|folder| Path::new(folder).is_dir()).unwrap()
}

#[test]
fn a_service_left_behind_does_not_hold_the_arm() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(64);
        let arm = arm("ext4");
        let (mut attached, _) = attach(&image, &arm, &lab);
        let printed = attached.make(arm.checked().unwrap()).unwrap();
        let device = attached.path().to_owned();
        let point = isolation::mount_point().unwrap();
        let ready_arm = attached.mount(arm.checked().unwrap(), &printed, &point).map_err(|(_, e)| e).unwrap();
        let ArmTarget::Directory(folder) = ready_arm.target().clone() else { panic!("a directory") };
        let place = Sandbox::make(&folder).unwrap();
        // A daemon: in its own session, with a file of the arm open.
        let message = shell(
            &place,
            "setsid sh -c 'exec sleep 1000 3> held' > /dev/null 2>&1 & sleep 0.2; echo started",
        );
        assert_eq!(message, "started\n");
        assert_eq!(shell(&place, "cat held; ls"), "held\n");
        let mut attached = ready_arm.unmount().unwrap().unwrap();
        // The check opens the device exclusively: it would fail if any namespace still had the arm mounted.
        attached.check(&arm).unwrap();
        attached.detach().unwrap();
        assert_torn_down(&image, &device, &lab);
    });
}

/// Prints for each word (a path, `@name` or a port) whether a server answers there.
const CALL: &str = "use IO::Socket::UNIX; use IO::Socket::INET; use Socket;
for my $to (@ARGV) {
    my $s = $to =~ /^\\d+$/ ? IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $to, Timeout => 5)
          : IO::Socket::UNIX->new(Peer => $to =~ /^@(.*)/ ? \"\\0$1\" : $to);
    print $s ? 'reached ' : 'none ', $to, \"\\n\";
}";

/// A folder that everybody may enter, deleted at the end.
fn open_folder(parent: &str) -> TempDir {
    let folder = TempDir::new_in(parent).unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    folder
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn sandbox_cannot_reach_host_sockets_or_pipes() {
    isolated(|| {
        if command::find("perl").is_none() {
            return skip("sandbox_cannot_reach_host_sockets_or_pipes", "needs perl");
        }
        let lab = Lab::new();
        let place = Sandbox::make(&lab.folder("arm")).unwrap();
        // The last is nowhere special: such as the socket of a database in its own folder.
        let folders = ["/run", "/tmp", "/var/tmp", "/dev/shm", "/var/lib"].map(open_folder);
        let (mut listeners, mut pipes, mut targets) = (Vec::new(), Vec::new(), Vec::<String>::new());
        let (mut shown_at, mut points) = (Vec::new(), Vec::new());
        for folder in &folders {
            let (socket, pipe) = (folder.path().join("a socket"), folder.path().join("pipe"));
            listeners.push(UnixListener::bind(&socket).unwrap());
            mode(&socket, 0o777);
            targets.push(socket.display().to_string());
            rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
            mode(&pipe, 0o666);
            // Held for reading, or writing to it would block.
            pipes.push((File::options().read(true).write(true).open(&pipe).unwrap(), pipe));
        }
        // The same sockets, in mount namespaces that show the folders or their contents under other paths.
        for (number, shown) in ["/run", "/tmp", folders[4].path().to_str().unwrap()].into_iter().enumerate() {
            let point = folders[4].path().with_extension(format!("shown{number}"));
            fs::create_dir(&point).unwrap();
            rustix::mount::mount_bind(shown, &point).unwrap();
            let inside = Path::new(&targets[[0, 1, 4][number]]).strip_prefix(shown).unwrap().to_owned();
            targets.push(point.join(inside).display().to_string());
            shown_at.push(MountGuard::of(&point));
            points.push(point);
        }
        let name = format!("fstrial-test-{}", std::process::id());
        let named = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        targets.push(format!("@{name}"));
        targets.push(port.local_addr().unwrap().port().to_string());
        let words: Vec<&str> =
            ["perl", "-e", CALL].into_iter().chain(targets.iter().map(String::as_str)).collect();
        let none: String = targets.iter().map(|target| format!("none {target}\n")).collect();
        assert_eq!(message(&place, &words), none);
        let outside: String = targets.iter().map(|target| format!("reached {target}\n")).collect();
        assert_eq!(crate::support::run("perl", &words[1..]).stdout, outside, "they do listen");
        // A fifo outside the hidden folders is still there: it is the one thing that nothing stops.
        for (_held, pipe) in &pipes[..4] {
            assert_eq!(
                shell(&place, &format!("test -p {0} && echo x > {0} && echo wrote", pipe.display())),
                ""
            );
        }
        drop((listeners, named, shown_at));
        points.iter().for_each(|point| fs::remove_dir(point).unwrap());
    });
}

/// All that there are of something would be missing to others.
#[test]
fn sandbox_limits_private_ptys_and_processes() {
    isolated(|| {
        if command::find("perl").is_none() {
            return skip("sandbox_limits_private_ptys_and_processes", "needs perl");
        }
        let lab = Lab::new();
        let place = Sandbox::make(&lab.folder("arm")).unwrap();
        let taken = || fs::read_to_string("/proc/sys/kernel/pty/nr").unwrap().trim().parse::<u32>().unwrap();
        let before = taken();
        let script = "my @all; while (open(my $t, '+<', '/dev/ptmx')) { push @all, $t; last if @all > 5000 }
                      print scalar(@all), ' '; open(my $p, '<', '/proc/self/limits');
                      while (<$p>) { print \"$1\\n\" if /^Max processes +(\\d+)/ }";
        let printed = message(&place, &["perl", "-e", script]);
        assert_eq!(printed, "256 4096\n");
        // Whoever else has some at this moment has few.
        assert!(taken() < before + 100, "they were given back");
        // One that works as always.
        assert_eq!(shell(&place, "test -c /dev/ptmx && echo there"), "there\n");
    });
}

#[test]
fn sandbox_has_private_sockets_and_temporary_folders() {
    isolated(|| {
        if command::find("perl").is_none() {
            return skip("sandbox_has_private_sockets_and_temporary_folders", "needs perl");
        }
        let lab = Lab::new();
        let place = Sandbox::make(&lab.folder("arm")).unwrap();
        let serve = "use IO::Socket::UNIX; use IO::Socket::INET;
            my @s = map { IO::Socket::UNIX->new(Local => $_, Listen => 5) or die $! } @ARGV;
            push @s, IO::Socket::INET->new(LocalAddr => '127.0.0.1:7070', Listen => 5) or die $!;
            open(my $f, '>', 'up'); close $f; sleep 100;";
        let sockets = "own /tmp/own /run/own /var/tmp/own";
        let script = format!(
            "perl -e \"$0\" {sockets} & while ! test -e up; do sleep 0.02; done; perl -e \"$1\" {sockets} 7070
             for d in /tmp /run /var/tmp /dev/shm; do echo x > $d/left && ls -A $d | tr '\\n' ' '; stat -c %a $d; done"
        );
        let printed = message(&place, &["sh", "-c", &script, serve, CALL]);
        assert_eq!(
            printed,
            "reached own\nreached /tmp/own\nreached /run/own\nreached /var/tmp/own\nreached 7070\n\
             left own 1777\nleft own 1777\nleft own 1777\nleft 1777\n"
        );
        for left in ["/tmp/left", "/run/left", "/var/tmp/left", "/dev/shm/left", "/tmp/own"] {
            assert!(!Path::new(left).exists(), "{left}");
        }
        assert_eq!(shell(&place, "ls -A /tmp /run"), "/run:\n\n/tmp:\n", "each command finds them empty");
        assert!(
            !fs::read_to_string("/proc/self/mountinfo").unwrap().contains(" /var/tmp "),
            "no mount shows here"
        );
    });
}

/// A script that shows the text next to its folder.
fn application(home: &Path) -> PathBuf {
    for folder in ["bin", "lib"] {
        fs::create_dir(home.join(folder)).unwrap();
        mode(&home.join(folder), 0o755);
    }
    fs::write(home.join("lib/text"), "from its own folder\n").unwrap();
    let tool = home.join("bin/tool");
    fs::write(
        &tool,
        "#!/bin/sh\ncat \"$(dirname \"$0\")/../lib/text\"; (echo x > \"$0\") 2>&1 | grep -c Read-only\n",
    )
    .unwrap();
    mode(&tool, 0o755);
    tool
}

#[test]
fn command_files_in_hidden_folders_stay_visible() {
    isolated(|| {
        let lab = Lab::new();
        let place = Sandbox::make(&lab.folder("arm")).unwrap();
        for parent in ["/tmp", "/var/tmp"] {
            let home = open_folder(parent);
            let tool = application(home.path());
            assert_eq!(message(&place, &[tool.to_str().unwrap()]), "from its own folder\n1\n");
            let link = home.path().join("link");
            symlink("bin", &link).unwrap();
            assert_eq!(message(&place, &[link.join("tool").to_str().unwrap()]), "from its own folder\n1\n");
        }
        // Who listens in the folder of a program that is bound back does so to others.
        let home = open_folder("/tmp");
        let (tool, socket) = (application(home.path()), home.path().join("lib/socket"));
        let listener = UnixListener::bind(&socket).unwrap();
        mode(&socket, 0o777);
        let call =
            format!("#!/bin/sh\nexec perl -e '{}' {}\n", CALL.replace('\'', "'\\''"), socket.display());
        fs::write(&tool, call).unwrap();
        if command::find("perl").is_some() {
            assert_eq!(message(&place, &[tool.to_str().unwrap()]), format!("none {}\n", socket.display()));
            assert_eq!(
                crate::support::run(tool.to_str().unwrap(), &[]).stdout,
                format!("reached {}\n", socket.display())
            );
        }
        drop(listener);
        let home = open_folder("/tmp");
        let elsewhere = home.path().join("sleepless");
        // A shell without a script: a program of many names would look at the link's.
        symlink("/bin/sh", &elsewhere).unwrap();
        assert_eq!(
            message(&place, &[elsewhere.to_str().unwrap()]),
            "",
            "a link that leads out of what is hidden"
        );
        let script =
            tempfile::Builder::new().prefix("fstrial-test-").tempfile_in("/tmp").unwrap().into_temp_path();
        fs::write(&script, "#!/bin/sh\nls -A /tmp\n").unwrap();
        mode(&script, 0o755);
        let name = script.file_name().unwrap().to_str().unwrap();
        assert_eq!(
            message(&place, &[script.to_str().unwrap()]),
            format!("{name}\n"),
            "alone, where it lies on its own"
        );
        // A file that the command names, and one that only root can read, which must stay inaccessible.
        let (data, private) = (home.path().join("data"), home.path().join("private"));
        fs::write(&data, "data\n").unwrap();
        mode(&data, 0o644);
        fs::create_dir(&private).unwrap();
        fs::write(private.join("data"), "secret\n").unwrap();
        mode(&private, 0o700);
        assert_eq!(message(&place, &["cat", data.to_str().unwrap()]), "data\n");
        let refused = message(&place, &["cat", private.join("data").to_str().unwrap()]);
        assert!(refused.contains("Permission denied"), "{refused}");
        // Of folders, links and sockets that a command names nothing is seen.
        let linked = home.path().join("linked");
        symlink("/etc/hostname", &linked).unwrap();
        for hidden in [home.path(), &linked] {
            let refused = message(&place, &["ls", hidden.to_str().unwrap()]);
            assert!(refused.contains("No such file"), "{refused}");
        }
    });
}

#[test]
fn sandbox_cannot_escape_through_other_nobody_process() {
    isolated(|| {
        if command::find("setpriv").is_none() {
            return skip("sandbox_cannot_escape_through_other_nobody_process", "needs setpriv");
        }
        let lab = Lab::new();
        let place = Sandbox::make(&lab.folder("arm")).unwrap();
        let home = open_folder("/tmp");
        mode(home.path(), 0o777);
        // For example a service that runs as nobody: its root, through /proc, is the host's.
        let script =
            "exec setpriv --reuid 65534 --regid 65534 --clear-groups sh -c 'echo ready; exec sleep 100'";
        let other = Background::start(false, script, &[]);
        let target = home.path().join("written");
        let script = format!(
            "for p in /proc/[0-9]*; do echo x > $p/root{} && echo wrote; done 2> /dev/null; echo /proc/[0-9]*",
            target.display()
        );
        let printed = shell(&place, &script);
        assert!(!target.exists(), "{printed}");
        assert_eq!(printed, "/proc/1\n", "it sees its own processes only");
        assert!(other.pid() > 0);
    });
}
