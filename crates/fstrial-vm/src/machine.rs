//! QEMU's arguments for a microVM: a kernel, its first files, a port to the host, the host's files for reading, a
//! private disk.

use std::path::PathBuf;

/// The program.
pub const QEMU: &str = "qemu-system-x86_64";
/// The name of the port on which host and guest speak.
pub const PORT: &str = "fstrial.0";
/// The name of the port for orders to the modelled device.
pub const DEVICE_PORT: &str = "fstrial.device";
/// The serial number of its disk.
pub const DEVICE_SERIAL: &str = "model";
/// The tag of the host's files.
pub const HOST_FILES: &str = "host";

/// The processors of a guest.
#[derive(Debug, Clone, Copy)]
pub enum Processors {
    /// The host's own.
    Kvm {
        /// Their number.
        cpus: u16,
        /// Its disk is used without the page cache of the host.
        direct_io: bool,
    },
    /// An emulated one.
    Emulated,
    /// An emulated one in virtual time: an instruction takes a nanosecond, and an idle processor jumps to its next timer. So nothing that
    /// is timed may wait for the host.
    Virtual,
}

/// A microVM.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The kernel, an ELF file.
    pub kernel: PathBuf,
    /// The first files.
    pub initramfs: PathBuf,
    /// Destination of its kernel's messages.
    pub console: PathBuf,
    /// A file that is its only disk.
    pub disk: PathBuf,
    /// Its memory, in MiB.
    pub memory: u32,
    /// Processors of the host by KVM, or a single emulated one.
    pub processors: Processors,
    /// A modelled device: the descriptors of the sockets of its NBD server and of the port for orders.
    pub device: Option<[i32; 2]>,
}

impl Machine {
    /// The arguments. The port is the program's standard input and output.
    ///
    /// q35, as `microvm` without KVM has no timer to calibrate against and hangs at random; `panic=-1` and `-no-reboot` turn a panic
    /// into an end. An emulated processor has nothing to mitigate, and nothing to calibrate its counter against; with the self-tests of
    /// its cryptography the kernel boots a second later. In virtual time `rep movsb` would count once per byte, so it has no fast one.
    pub fn words(&self) -> Vec<String> {
        let file = |path: &PathBuf| path.display().to_string().replace(',', ",,");
        let emulated = " mitigations=off tsc=reliable no_timer_check";
        let (accelerator, cpus, cache, emulated) = match self.processors {
            Processors::Kvm { cpus, direct_io } => {
                ("-accel kvm -cpu host", cpus, if direct_io { ",cache.direct=on" } else { "" }, "")
            }
            Processors::Emulated => ("-accel tcg,thread=multi -cpu max", 1, "", emulated),
            Processors::Virtual => {
                ("-accel tcg -icount shift=0,sleep=off -rtc clock=vm -cpu max,-erms,-fsrm", 1, "", emulated)
            }
        };
        let accelerator: Vec<&str> = accelerator.split(' ').collect();
        let words: [&[&str]; 10] = [
            &["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"],
            &["-machine", "q35"],
            &accelerator,
            &["-smp", &cpus.to_string(), "-m", &self.memory.to_string()],
            &["-kernel", &self.kernel.display().to_string()],
            &["-initrd", &self.initramfs.display().to_string()],
            &["-append", &format!("console=ttyS0 quiet panic=-1 cryptomgr.notests{emulated}")],
            &["-serial", &format!("file:{}", self.console.display())],
            &[
                "-device",
                "virtio-serial-pci",
                "-chardev",
                "stdio,id=port,signal=off",
                "-device",
                &format!("virtserialport,chardev=port,name={PORT}"),
            ],
            &[
                "-virtfs",
                &format!(
                    "local,path=/,mount_tag={HOST_FILES},security_model=none,readonly=on,multidevs=remap"
                ),
                "-blockdev",
                &format!("driver=file,filename={},node-name=disk,discard=unmap{cache}", file(&self.disk)),
                "-device",
                "virtio-blk-pci,drive=disk",
            ],
        ];
        let device = self.device.into_iter().flat_map(|[disk, port]| {
            [
                "-chardev".into(),
                format!("socket,id=orders,fd={port}"),
                "-device".into(),
                format!("virtserialport,chardev=orders,name={DEVICE_PORT}"),
                "-object".into(),
                "iothread,id=model-thread".into(),
                "-blockdev".into(),
                format!("driver=nbd,node-name=model,server.type=fd,server.str={disk},discard=unmap"),
                "-device".into(),
                format!("virtio-blk-pci,drive=model,serial={DEVICE_SERIAL},request-merging=off,iothread=model-thread"),
            ]
        });
        words.concat().into_iter().map(str::to_owned).chain(device).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_standard_input_and_output_and_the_host_is_only_read() {
        let machine = Machine {
            kernel: "/k".into(),
            initramfs: "/i".into(),
            console: "/c".into(),
            disk: "/a,b".into(),
            memory: 512,
            processors: Processors::Emulated,
            device: Some([7, 8]),
        };
        let line = machine.words().join(" ");
        for part in [
            "-kernel /k -initrd /i ",
            "-smp 1 -m 512 ",
            "stdio,id=port,signal=off -device virtserialport,chardev=port,name=fstrial.0 ",
            "path=/,mount_tag=host,security_model=none,readonly=on",
            "driver=file,filename=/a,,b,node-name=disk",
            "socket,id=orders,fd=8 -device virtserialport,chardev=orders,name=fstrial.device",
            "driver=nbd,node-name=model,server.type=fd,server.str=7",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(
            line.contains("-accel tcg") && !line.contains("direct") && line.contains("mitigations=off"),
            "{line}"
        );
        let on = |processors| Machine { processors, ..machine.clone() }.words().join(" ");
        let line = on(Processors::Kvm { cpus: 2, direct_io: true });
        assert!(
            line.contains("-accel kvm -cpu host -smp 2")
                && !line.contains("tcg")
                && !line.contains("mitigations"),
            "{line}"
        );
        assert!(line.contains("discard=unmap,cache.direct=on"), "{line}");
        let line = on(Processors::Virtual);
        assert!(line.contains("-icount shift=0,sleep=off") && line.contains("clock=vm"), "{line}");
    }
}
