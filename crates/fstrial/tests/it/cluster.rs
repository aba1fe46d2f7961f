//! `fstrial run --on`: a real Slurm whose nodes are network, process, mount and host-name namespaces of this host, and
//! commands. The nodes share a kernel and its processors, and so these tests check files and counts, never verdicts.

use crate::support::{self, FSTRIAL, Lab, Running};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

/// Longest wait for any step of Slurm.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster: its controller on a bridge, and its nodes behind it.
pub(crate) struct Cluster {
    folder: PathBuf,
    /// Two numbers of the network's address, and the prefix of its devices' names.
    net: u32,
    munge: Option<Child>,
    controller: Option<Child>,
    nodes: Vec<Option<Child>>,
}

impl Cluster {
    /// A cluster with this many nodes, `h1` and so on; `None` with a reason where it cannot be made.
    pub(crate) fn new(name: &str, lab: &Lab, nodes: usize) -> Option<Self> {
        if !support::is_root_with_loop_devices(name) {
            return None;
        }
        for program in ["munged", "slurmctld", "slurmd", "sbatch", "ip", "nsenter", "unshare"] {
            if fstrial_stack::command::find(program).is_none() {
                support::skip(name, &format!("{program} is not installed"));
                return None;
            }
        }
        let folder = lab.path("slurm");
        for (part, mode) in [("", 0o755), ("key", 0o700), ("run", 0o755), ("state", 0o755)] {
            fs::create_dir_all(folder.join(part)).unwrap();
            fs::set_permissions(folder.join(part), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::write(folder.join("key/munge.key"), [7; 128]).unwrap();
        fs::set_permissions(folder.join("key/munge.key"), fs::Permissions::from_mode(0o400)).unwrap();
        // Tests of one process and of others run at the same time.
        static CLUSTERS: AtomicU32 = AtomicU32::new(0);
        let net = (std::process::id() * 4 + CLUSTERS.fetch_add(1, Ordering::Relaxed)) % 62_500;
        let nodes_of = || std::iter::repeat_with(|| None).take(nodes).collect();
        let mut cluster = Self { folder, net, munge: None, controller: None, nodes: nodes_of() };
        if let Err(why) = cluster.connect(nodes) {
            support::skip(name, &format!("no network for the nodes: {why}"));
            return None;
        }
        cluster.configure(nodes);
        let path = |name: &str| cluster.folder.join(name).display().to_string();
        let munge = [
            "--foreground".to_owned(),
            format!("--key-file={}", path("key/munge.key")),
            format!("--socket={}", path("run/munge.sock")),
            format!("--pid-file={}", path("run/munged.pid")),
            format!("--log-file={}", path("key/log")),
            format!("--seed-file={}", path("key/seed")),
        ];
        cluster.munge = Some(cluster.daemon("munged", "munged", &munge));
        cluster.start_controller();
        for node in 1..=nodes {
            cluster.start_node(node);
        }
        let idle = format!("idle {nodes}");
        let are_idle = || cluster.ask("sinfo", &["-h", "-o", "%t %D"]).trim() == idle;
        assert!(support::eventually(PATIENCE, are_idle), "{}", cluster.ask("sinfo", &[]));
        Some(cluster)
    }

    fn address(&self, host: usize) -> String {
        format!("10.{}.{}.{host}", self.net / 250 % 250, self.net % 250)
    }

    fn namespace(&self, node: usize) -> String {
        format!("fst{}h{node}", self.net)
    }

    /// Whether the folder of named namespaces was a mount before the first cluster: ip turns it into one.
    fn had_mount() -> bool {
        static HAD: OnceLock<bool> = OnceLock::new();
        let is_mounted = || fs::read_to_string("/proc/self/mountinfo").unwrap().contains(" /run/netns ");
        *HAD.get_or_init(is_mounted)
    }

    /// A bridge, and for each node a namespace with one end of a pair of devices.
    fn connect(&self, nodes: usize) -> Result<(), String> {
        let bridge = format!("fst{}", self.net);
        let ip = |words: String| {
            let done = support::command("ip").args(words.split(' ')).output().map_err(|e| e.to_string())?;
            if done.status.success() {
                Ok(())
            } else {
                Err(String::from_utf8_lossy(&done.stderr).into_owned())
            }
        };
        Self::had_mount();
        ip(format!("link add {bridge} type bridge"))?;
        ip(format!("addr add {}/24 dev {bridge}", self.address(254)))?;
        ip(format!("link set {bridge} up"))?;
        for node in 1..=nodes {
            let (space, pair) = (self.namespace(node), format!("f{}p{node}", self.net));
            ip(format!("netns add {space}"))?;
            ip(format!("link add {pair} type veth peer name eth0 netns {space}"))?;
            ip(format!("link set {pair} master {bridge} up"))?;
            ip(format!("-n {space} addr add {}/24 dev eth0", self.address(node)))?;
            ip(format!("-n {space} link set eth0 up"))?;
            ip(format!("-n {space} link set lo up"))?;
        }
        Ok(())
    }

    fn configure(&self, nodes: usize) {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let folder = self.folder.display();
        let mut text = format!(
            "ClusterName=lab\nSlurmctldHost={host}({})\nSlurmctldPort={}\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={folder}/run/munge.sock,cred_expire=5\n\
             StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool-%n\n\
             SlurmctldPidFile={folder}/run/ctld.pid\nSlurmdPidFile={folder}/run/slurmd-%n.pid\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n\
             AccountingStorageType=accounting_storage/none\nSelectType=select/cons_tres\n\
             SelectTypeParameters=CR_Core\nReturnToService=2\nMpiDefault=none\nKillWait=10\nSlurmdTimeout=20\n\
             SlurmdParameters=config_overrides\n",
            self.address(254),
            20_000 + self.net % 10_000
        );
        for node in 1..=nodes {
            text += &format!("NodeName=h{node} NodeAddr={} CPUs=2 RealMemory=1000\n", self.address(node));
            fs::create_dir_all(self.folder.join(format!("spool-h{node}"))).unwrap();
        }
        text += &format!(
            "PartitionName=lab Nodes=h[1-{nodes}] Default=YES MaxTime=1000 State=UP OverSubscribe=EXCLUSIVE\n"
        );
        fs::write(self.folder.join("slurm.conf"), text).unwrap();
    }

    fn daemon(&self, log: &str, program: &str, words: &[String]) -> Child {
        let log = fs::File::create(self.folder.join(format!("{log}.log"))).unwrap();
        let program = fstrial_stack::command::find(program).unwrap();
        let mut command = support::command(program);
        command.args(words).env("SLURM_CONF", self.folder.join("slurm.conf")).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
    }

    fn start_controller(&mut self) {
        self.controller = Some(self.daemon("slurmctld", "slurmctld", &["-D".into()]));
    }

    fn start_node(&mut self, node: usize) {
        let script = format!("hostname h{node} && exec slurmd -D -N h{node}");
        let net = format!("--net=/run/netns/{}", self.namespace(node));
        let words = [
            net.as_str(),
            "unshare",
            "--uts",
            "--pid",
            "--mount",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            &script,
        ];
        let child = self.daemon(&format!("h{node}"), "nsenter", &words.map(str::to_owned));
        self.nodes[node - 1] = Some(child);
    }

    /// The node loses its power: everything on it dies at this moment.
    fn kill_node(&mut self, node: usize) {
        let mut child = self.nodes[node - 1].take().unwrap();
        support::kill(child.id());
        child.wait().unwrap();
    }

    /// Ends the controller as a restart does: it saves its state. One that is killed forgets the jobs of the last seconds.
    fn end_controller(&mut self) {
        let mut child = self.controller.take().unwrap();
        support::send(child.id(), rustix::process::Signal::TERM);
        child.wait().unwrap();
    }

    pub(crate) fn ask(&self, program: &str, words: &[&str]) -> String {
        let mut command = support::command(program);
        let done = command.args(words).env("SLURM_CONF", self.folder.join("slurm.conf")).output().unwrap();
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    /// Starts `fstrial` as a user of the cluster does; words between `'` may have spaces.
    pub(crate) fn start(&self, lab: &Lab, words: &str) -> Running {
        let mut command = quoted(lab, words);
        command.env("SLURM_CONF", self.folder.join("slurm.conf"));
        Running::start(command)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let nodes = std::mem::take(&mut self.nodes);
        let count = nodes.len();
        let daemons = [self.controller.take(), self.munge.take()];
        for mut child in nodes.into_iter().chain(daemons).flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
        for node in 1..=count {
            let _ = support::command("ip").args(["netns", "del", &self.namespace(node)]).status();
        }
        let _ = support::command("ip").args(["link", "del", &format!("fst{}", self.net)]).status();
        // Refused as long as another cluster has a namespace there.
        if !Self::had_mount() {
            let _ = support::command("umount").args(["-q", "/run/netns"]).status();
        }
    }
}

/// A trial of a few seconds; `rounds` of it.
fn write_trial(lab: &Lab, name: &str, rounds: u32) {
    lab.write(
        &format!("{name}.toml"),
        &format!(
            "[trial]\nrounds = {rounds}\n[device]\nkind = \"image\"\nsize = \"320MiB\"\n[[arm]]\nfilesystem = \"ext4\"\n\
             [[arm]]\nname = \"other\"\nfilesystem = \"ext4\"\nmount = [\"noatime\"]\n\
             [[workload]]\nuse = \"append-fsync\"\nthreads = [1]\nduration = \"200ms\"\nwarmup = \"0s\"\n"
        ),
    );
}

/// The hosts of the pooled answer, with their rounds.
fn rounds_of_hosts(document: &Value) -> Vec<(String, u64)> {
    let hosts = document["questions"][0]["hosts"].as_array().unwrap_or_else(|| panic!("{document}"));
    let mut result: Vec<(String, u64)> = hosts
        .iter()
        .map(|host| (host["name"].as_str().unwrap().to_owned(), host["rounds"].as_u64().unwrap()))
        .collect();
    result.sort();
    result
}

fn named(hosts: &[(&str, u64)]) -> Vec<(String, u64)> {
    hosts.iter().map(|(name, rounds)| ((*name).to_owned(), *rounds)).collect()
}

#[test]
fn cluster_trial_runs_on_nodes_and_survives_faults() {
    let name = "cluster_trial_runs_on_nodes_and_survives_faults";
    let lab = Lab::new();
    let Some(mut cluster) = Cluster::new(name, &lab, 4) else { return };

    // Three of four; none is named.
    write_trial(&lab, "short", 5);
    let ended = cluster.start(&lab, "run short.toml --on slurm --hosts 3 --json").end(2 * PATIENCE);
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    let document = ended.json().pop().unwrap();
    assert_eq!(rounds_of_hosts(&document), named(&[("h1", 5), ("h2", 5), ("h3", 5)]));
    let question = &document["questions"][0];
    assert!(question["hosts"].as_array().unwrap().iter().all(|host| host["stop"] == "fixed"), "{question}");
    assert!(question["pooled"]["interval"].is_array(), "{question}");
    // Again, nothing is left to run.
    let again = cluster.start(&lab, "run short.toml --on slurm --hosts 3 --json").end(PATIENCE);
    let states: Vec<Value> = again.json().iter().filter_map(|line| line.get("state").cloned()).collect();
    assert_eq!((states, again.json().pop().unwrap()), (vec!["done".into(); 3], document));
    assert_eq!(
        cluster.ask("squeue", &["-h", "-t", "all", "-o", "%i"]).lines().count(),
        3,
        "three jobs in all"
    );

    // A host whose trial is present counts even when its node is missing: no other node takes its place.
    cluster.ask("scontrol", &["update", "nodename=h3", "state=drain", "reason=test"]);
    let without = cluster.start(&lab, "run short.toml --on slurm --hosts 3 --json").end(PATIENCE);
    let hosts = rounds_of_hosts(&without.json().pop().unwrap());
    assert_eq!(hosts, named(&[("h1", 5), ("h2", 5), ("h3", 5)]));
    cluster.ask("scontrol", &["update", "nodename=h3", "state=resume"]);

    // One node is drained, and takes no job; another loses its power in the middle; and the controller is started again.
    write_trial(&lab, "long", 12);
    cluster.ask("scontrol", &["update", "nodename=h4", "state=drain", "reason=test"]);
    let mut running = cluster.start(&lab, "run long.toml --on slurm --hosts 3 --json");
    let mut begun = 0;
    while begun < 3 {
        begun += u32::from(running.event().expect("it goes on")["state"] == "running");
    }
    let rounds = || fs::read_to_string(lab.path("long.hosts/h2.out")).unwrap_or_default();
    assert!(support::eventually(PATIENCE, || rounds().contains("\"done\":2")), "{}", rounds());
    cluster.kill_node(2);
    cluster.end_controller();
    // Its port may be taken for a moment.
    let is_back = || {
        if cluster.controller.as_mut().is_none_or(|daemon| daemon.try_wait().unwrap().is_some()) {
            cluster.start_controller();
        }
        // Without -N nodes in one state are h[1-3].
        cluster.ask("sinfo", &["-h", "-N", "-o", "%N"]).lines().any(|node| node.trim() == "h1")
    };
    assert!(support::eventually(PATIENCE, is_back));
    cluster.ask("scontrol", &["update", "nodename=h2", "state=down", "reason=test"]);
    cluster.start_node(2);
    cluster.ask("scontrol", &["update", "nodename=h2", "state=resume"]);
    let ended = running.end(4 * PATIENCE);
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    let document = ended.json().pop().unwrap();
    assert_eq!(rounds_of_hosts(&document), named(&[("h1", 12), ("h2", 12), ("h3", 12)]));
    // Its earlier results are kept: it has started twice, and the second time with rounds.
    let begun: Vec<u64> = rounds()
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["event"] == "begun")
        .map(|line| line["rounds"].as_u64().unwrap())
        .collect();
    assert!(begun.len() == 2 && begun[0] == 0 && begun[1] >= 2, "{begun:?}");

    more_hosts_than_there_are(&lab, &cluster);
    drop(cluster);
    lab.assert_nothing_left("after a cluster");
}

/// It is an error that leaves no job.
fn more_hosts_than_there_are(lab: &Lab, cluster: &Cluster) {
    write_trial(lab, "many", 5);
    let ended = cluster.start(lab, "run many.toml --on slurm --hosts 4").end(PATIENCE);
    assert_eq!(ended.code(), 2, "{ended:?}");
    assert!(ended.stderr.contains("only 3 of 4 hosts take the job"), "{ended:?}");
    let none_left = || cluster.ask("squeue", &["-h"]).trim().is_empty();
    assert!(support::eventually(PATIENCE, none_left), "{}", cluster.ask("squeue", &[]));
}

#[test]
fn campaign_survives_kill_and_ends_on_interrupt() {
    let name = "campaign_survives_kill_and_ends_on_interrupt";
    let lab = Lab::new();
    let Some(cluster) = Cluster::new(name, &lab, 3) else { return };
    write_trial(&lab, "trial", 12);
    let words = "run trial.toml --on slurm --hosts 3 --json";
    let until_all_run = || {
        let mut running = cluster.start(&lab, words);
        let mut begun = 0;
        while begun < 3 {
            begun += u32::from(running.event().expect("it goes on")["state"] == "running");
        }
        running
    };
    // Interrupted, it cancels its jobs and reports their results so far.
    let running = until_all_run();
    let done = || fs::read_to_string(lab.path("trial.hosts/h1.out")).unwrap_or_default();
    assert!(support::eventually(PATIENCE, || done().contains("\"done\":1")), "{}", done());
    running.signal(rustix::process::Signal::INT);
    assert_eq!(running.end(2 * PATIENCE).code(), 130);
    assert_eq!(cluster.ask("squeue", &["-h"]), "");
    // Nor does a job that is put into the queue again fail, or escape from the next interruption.
    let mut running = until_all_run();
    let job = cluster.ask("squeue", &["-h", "-o", "%i %N"]);
    let job = job.lines().find_map(|line| line.strip_suffix(" h2")).unwrap().to_owned();
    cluster.ask("scontrol", &["requeue", &job]);
    let is_waiting = |event: &Value| event["host"] == "h2" && event["state"] == "waiting";
    while !is_waiting(&running.event().expect("it goes on")) {}
    running.signal(rustix::process::Signal::INT);
    assert_eq!(running.end(2 * PATIENCE).code(), 130);
    assert_eq!(cluster.ask("squeue", &["-h"]), "");
    // Killed, it leaves them running, and the next one follows them.
    let running = until_all_run();
    support::kill(running.pid());
    assert!(running.end(PATIENCE).is_killed());
    let jobs = cluster.ask("squeue", &["-h", "-o", "%i"]);
    assert_eq!(jobs.lines().count(), 3, "{jobs}");
    let ended = cluster.start(&lab, words).end(4 * PATIENCE);
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    // An interrupted round is not one of the requested rounds.
    let result = rounds_of_hosts(&ended.json().pop().unwrap());
    assert_eq!(result, named(&[("h1", 12), ("h2", 12), ("h3", 12)]));
    assert_eq!(cluster.ask("squeue", &["-h", "-t", "all", "-o", "%i"]).lines().count(), 9, "no other job");
    drop(cluster);
    lab.assert_nothing_left("after a campaign");
}

/// The words of a command that runs the trial of a host here, with its own home.
fn command_for(lab: &Lab) -> String {
    let home = lab.path("homes").display().to_string();
    fs::create_dir_all(&home).unwrap();
    let script = format!("#!/bin/sh\nexec {FSTRIAL} agent --trial --home {home}/$1\n");
    let path = lab.write("on-host", &script);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// `fstrial` with words of which some have spaces, between `'`.
fn quoted(lab: &Lab, words: &str) -> Command {
    let mut command = lab.prepare(FSTRIAL);
    for (index, part) in words.split('\'').enumerate() {
        if index % 2 == 1 {
            command.arg(part);
        } else {
            command.args(part.split_whitespace());
        }
    }
    command
}

fn start_quoted(lab: &Lab, words: &str) -> Running {
    Running::start(quoted(lab, words))
}

pub(crate) fn run_quoted(lab: &Lab, words: &str) -> support::Ended {
    start_quoted(lab, words).end(2 * PATIENCE)
}

#[test]
fn any_command_starts_the_job_of_a_host() {
    let lab = Lab::new();
    let on = command_for(&lab);
    for arm in ["a", "b"] {
        fs::create_dir(lab.path(arm)).unwrap();
    }
    let [a, b] = ["a", "b"].map(|arm| lab.path(arm).display().to_string());
    let words =
        format!("compare a=dir:{a} b=dir:{b} -w append-fsync --threads 1 --duration 100ms --rounds 5");
    lab.save(&words, "dirs.toml");
    let ended = run_quoted(
        &lab,
        &format!("run dirs.toml --on 'command {on} {{host}}' --hosts x,y,z --folder dirs.hosts --json"),
    );
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    let document = ended.json().pop().unwrap();
    assert_eq!(rounds_of_hosts(&document), named(&[("x", 5), ("y", 5), ("z", 5)]));
    // The answers that were kept are those of the runs, which an import reads.
    assert_eq!(lab.run("results import dirs.hosts/x.db dirs.hosts/y.db dirs.hosts/z.db").code(), 0);
    let questions = |words: &str| {
        let mut result = lab.run(&format!("meta {words} --json")).json().pop().unwrap()["questions"].take();
        for host in result[0]["hosts"].as_array_mut().unwrap() {
            host.as_object_mut().unwrap().remove("trials");
        }
        result
    };
    assert_eq!(questions(""), questions("dirs.hosts"));
    // A folder is of one trial.
    lab.write(
        "other.toml",
        &fs::read_to_string(lab.path("dirs.toml")).unwrap().replace("rounds = 5", "rounds = 6"),
    );
    let other = run_quoted(
        &lab,
        &format!("run other.toml --on 'command {on} {{host}}' --hosts x --folder dirs.hosts"),
    );
    assert!(other.code() == 2 && other.stderr.contains("has the hosts of another trial"), "{other:?}");
    // An unreachable host is reported with its command's error output, and the others count.
    lab.write(
        "half.sh",
        "#!/bin/sh\n[ $1 = lost ] && { echo no route to lost >&2; exit 255; }\nexec ./on-host $1\n",
    );
    fs::set_permissions(lab.path("half.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let half = run_quoted(
        &lab,
        "run dirs.toml --on 'command ./half.sh {host}' --hosts x,lost,z --folder half.hosts --json",
    );
    assert_eq!(half.code(), 11, "{half:?}");
    assert!(half.stderr.contains("not all rounds are there of lost"), "{half:?}");
    assert!(half.stdout.contains("no route to lost"), "{half:?}");
    assert_eq!(rounds_of_hosts(half.json().last().unwrap()), named(&[("x", 5), ("z", 5)]));
    // A job that answers for another host is not believed.
    let liar = "mkfifo pipe-$1; exec 3<>pipe-$1; read -r order\n\
                printf '%s\\n' \"$order\" | sed 's/\"host\":\"z\"/\"host\":\"x\"/' >&3";
    lab.write("liar.sh", &format!("#!/bin/sh\n{liar}\nexec {on} liar-$1 <&3\n"));
    fs::set_permissions(lab.path("liar.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let lies = run_quoted(
        &lab,
        "run dirs.toml --on 'command ./liar.sh {host}' --hosts x,z --folder lies.hosts --json",
    );
    assert_eq!(lies.code(), 11, "{lies:?}");
    assert!(lies.stdout.contains("its store has another trial, of x"), "{lies:?}");
    assert_eq!(rounds_of_hosts(lies.json().last().unwrap()), named(&[("x", 5)]));
    lab.assert_nothing_left("after commands");
}

/// A trial that is decided on a busy machine too, because one arm writes half as much again, and the words that run it
/// on some hosts; `None` where that cannot be tried.
fn decided(test: &str, lab: &Lab, name: &str, hosts: &str) -> Option<String> {
    if !support::is_root_with_loop_devices(test) {
        return None;
    }
    lab.save(
        "compare a=ext4 b=ext4:data=journal --device image --set device.size=320MiB -w append-fsync --threads 1 \
         --duration 100ms --rounds 8 --decide-on device-bytes",
        &format!("{name}.toml"),
    );
    let on = command_for(lab);
    Some(format!("run {name}.toml --on 'command {on} {{host}}' --hosts {hosts} --json"))
}

#[test]
fn hosts_with_decided_trials_are_done() {
    let lab = Lab::new();
    let Some(words) = decided("hosts_with_decided_trials_are_done", &lab, "decided", "x,y,z") else {
        return;
    };
    let ended = run_quoted(&lab, &words);
    // The verdict on three hosts hangs on the noise of this machine.
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    let document = ended.json().pop().unwrap();
    assert_eq!(rounds_of_hosts(&document), named(&[("x", 8), ("y", 8), ("z", 8)]));
    let store = fstrial_store::Store::open_read_only(lab.path("homes/x/results.db")).unwrap();
    assert_eq!(store.trials().unwrap()[0].status, fstrial_store::TrialStatus::Decided);
    let page = fs::read_to_string(lab.path("decided.hosts/hosts.html")).unwrap();
    assert!(page.contains("next host"), "{page}");
}

/// Two claims about bytes, which a busy machine changes little; parts of the second one cannot be run here.
const CLAIM: &str = r#"[claim]
id = "me-2026-data-journal"
statement = "A journal of data writes everything twice."
author = "me"
date = "2026-11"
tags = ["ext4"]
[[claim.expect]]
ratio = ["all", "ordered"]
metric = "device-bytes"
above = 1.05
[[claim.expect]]
works = ["all"]
[device]
kind = "image"
size = "320MiB"
[[arm]]
name = "ordered"
filesystem = "ext4"
[[arm]]
name = "all"
filesystem = "ext4"
mount = ["data=journal"]
[[workload]]
use = "append-fsync"
duration = "100ms"
threads = [1]
"#;

#[test]
fn hosts_check_claims() {
    if !support::is_root_with_loop_devices("hosts_check_claims") {
        return;
    }
    let lab = Lab::new();
    let on = command_for(&lab);
    lab.write("mine.toml", CLAIM);
    let words = format!(
        "claims check mine.toml percona-2012-dioread-nolock --on 'command {on} {{host}}' --hosts x,y,z --json"
    );
    let ended = run_quoted(&lab, &words);
    let document = ended.json().pop().unwrap();
    // The rounds of a claim that lacks something here are not missing.
    assert_eq!(rounds_of_hosts(&document), named(&[("x", 8), ("y", 8), ("z", 8)]));
    let [claim] = &document["claims"].as_array().unwrap()[..] else { panic!("{document}") };
    assert_eq!(claim["claim"], "me-2026-data-journal");
    assert_eq!((&claim["parts"], &claim["pooled"]), (&2.into(), &1.into()));
    // The verdict hangs on three hosts, which are one machine.
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    assert_eq!(claim["verdict"] == "undecided", ended.code() == 3, "{document}");
    let left_out = document["left_out"].as_object().unwrap();
    let [(why, hosts)] = &left_out.iter().collect::<Vec<_>>()[..] else { panic!("{document}") };
    assert!(why.contains("a kernel before 5.6"), "{why}");
    assert_eq!(hosts[0], "percona-2012-dioread-nolock on x");
    // The same again measures nothing, and other claims want another folder.
    let again = run_quoted(&lab, &words);
    assert_eq!(again.json().pop().unwrap()["claims"], document["claims"]);
    let other = run_quoted(&lab, &words.replace("mine.toml", ""));
    assert!(
        other.code() == 2 && other.stderr.contains("hosts of another trial (claims.json there)"),
        "{other:?}"
    );
    let refused = run_quoted(&lab, &format!("{words} --again"));
    assert!(refused.code() == 2 && refused.stderr.contains("--again is for one host"), "{refused:?}");
    let plain = run_quoted(&lab, words.trim_end_matches("--json"));
    assert!(plain.stderr.contains("x: done, 8 rounds, 1 claim left out"), "{plain:?}");
    let text = lab.run("meta claims.hosts");
    assert!(text.stdout.contains("me-2026-data-journal: device-bytes of all / ordered"), "{text:?}");
    lab.assert_nothing_left("after claims of hosts");
}

#[test]
fn a_campaign_is_looked_on_from_another_terminal() {
    let lab = Lab::new();
    let Some(words) = decided("a_campaign_is_looked_on_from_another_terminal", &lab, "seen", "x,y") else {
        return;
    };
    let mut first = start_quoted(&lab, &words);
    assert!(first.wait_for("host"));
    let jobs = || lab.path("seen.hosts/y.job").exists();
    assert!(support::eventually(PATIENCE, jobs));
    let seen = lab.run("watch seen.hosts");
    assert_eq!(seen.code(), 0, "{seen:?}");
    for line in
        ["x: running", "y: running", "x: done, 8 rounds", "y: done, 8 rounds", "fstrial meta seen.hosts"]
    {
        assert!(seen.stderr.contains(line), "{line}: {seen:?}");
    }
    assert_eq!(first.end(2 * PATIENCE).code(), 3);
    let none = lab.run("watch homes");
    assert!(none.code() == 2 && none.stderr.contains("is not the folder of a campaign"), "{none:?}");
}

#[test]
fn two_commands_do_not_disturb_each_other() {
    let lab = Lab::new();
    let Some(words) = decided("two_commands_do_not_disturb_each_other", &lab, "twice", "x,y") else {
        return;
    };
    let mut first = start_quoted(&lab, &words);
    assert!(first.wait_for("host"));
    let second = run_quoted(&lab, &words);
    assert!(second.code() == 2 && second.stderr.contains("another command follows"), "{second:?}");
    let first = first.end(2 * PATIENCE);
    // Two hosts have no interval.
    assert_eq!(first.code(), 3, "{first:?}");
    // Lines of another attempt, and the rest of a torn one, are not of this one.
    let out = lab.path("twice.hosts/x.out");
    let text = fs::read_to_string(&out).unwrap();
    fs::write(
        &out,
        text + "{\"attempt\":\"0\",\"event\":\"ended\",\"complete\":false,\"why\":\"old\"}\n{\"ev",
    )
    .unwrap();
    let again = run_quoted(&lab, &words);
    assert_eq!((again.code(), again.json().pop()), (3, first.json().pop()));
}

#[test]
fn invalid_cluster_options_are_refused_before_any_job() {
    let lab = Lab::new();
    write_trial(&lab, "trial", 5);
    write_trial(&lab, "few", 4);
    for (words, problem) in [
        ("run trial.toml --on 'command ssh host' --hosts a", "has no {host}"),
        ("run trial.toml --on kubernetes --hosts 3", "use slurm"),
        ("run trial.toml --on 'command ssh {host}' --hosts 3", "reaches hosts by their names"),
        ("run trial.toml --on 'command ssh {host}' --hosts a,../b", "is not the name of a host"),
        ("run trial.toml --on 'command ssh {host}' --hosts a,a", "is there twice"),
        ("run trial.toml --on 'command ssh {host}'", "--hosts"),
        ("run trial.toml --hosts 3", "--on"),
        ("run few.toml --on 'command ssh {host}' --hosts a", "a host counts with 5 rounds"),
        (
            "run trial.toml --on 'command ssh {host}' --hosts a --dry-run",
            "--dry-run is for a trial on this host",
        ),
    ] {
        let refused = run_quoted(&lab, words);
        assert_eq!(refused.code(), 2, "{words}: {refused:?}");
        assert!(refused.stderr.contains(problem), "{words}: {}", refused.stderr);
    }
    assert!(!lab.path("trial.hosts").exists());
    let disk = "[device]\nkind = \"disk\"\npath = \"/dev/disk/by-id/none\"\n[[arm]]\nfilesystem = \"ext4\"\n[[arm]]\nname = \"other\"\nfilesystem = \"ext4\"\n[[workload]]\nuse = \"append-fsync\"\n";
    lab.write("disk.toml", disk);
    let refused = run_quoted(&lab, "run disk.toml --on 'command ssh {host}' --hosts a");
    assert!(refused.code() == 2 && refused.stderr.contains("this trial is for many"), "{refused:?}");
    let order = lab.run("agent --trial");
    assert!(order.code() == 2 && order.stderr.contains("has no order"), "{order:?}");
}
