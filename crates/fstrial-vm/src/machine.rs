//! The words of QEMU for a microVM: a kernel, its first files, a port to the host, the host's files to read, a disk of its own.

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

/// How a guest runs on the host's own processors.
#[derive(Debug, Clone, Copy)]
pub struct Kvm {
    /// Its disk is used without the page cache of the host.
    pub direct_io: bool,
}

/// A microVM.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The kernel, an ELF file.
    pub kernel: PathBuf,
    /// The first files.
    pub initramfs: PathBuf,
    /// Where its kernel's messages go.
    pub console: PathBuf,
    /// A file that is its only disk.
    pub disk: PathBuf,
    /// Its memory, in MiB.
    pub memory: u32,
    /// Its processors.
    pub cpus: u16,
    /// They are the host's; otherwise they are emulated.
    pub kvm: Option<Kvm>,
    /// A modelled device: the descriptors of the sockets of its NBD server and of the port for orders.
    pub device: Option<[i32; 2]>,
}

impl Machine {
    /// The arguments. The port is the program's standard input and output.
    ///
    /// q35, as `microvm` without KVM has no timer to calibrate against and hangs at random; `panic=-1` and `-no-reboot` turn a panic
    /// into an end. An emulated processor has nothing to mitigate, and nothing to calibrate its counter against; with the self-tests of
    /// its cryptography the kernel boots a second later.
    pub fn words(&self) -> Vec<String> {
        let file = |path: &PathBuf| path.display().to_string().replace(',', ",,");
        let processor: &[&str] = match self.kvm {
            Some(_) => &["-accel", "kvm", "-cpu", "host"],
            None => &["-accel", "tcg,thread=multi", "-cpu", "max"],
        };
        let emulated = if self.kvm.is_some() { "" } else { " mitigations=off tsc=reliable no_timer_check" };
        let cache = if self.kvm.is_some_and(|kvm| kvm.direct_io) { ",cache.direct=on" } else { "" };
        let words: [&[&str]; 10] = [
            &["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"],
            &["-machine", "q35"],
            processor,
            &["-smp", &self.cpus.to_string(), "-m", &self.memory.to_string()],
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
            cpus: 2,
            kvm: None,
            device: Some([7, 8]),
        };
        let line = machine.words().join(" ");
        for part in [
            "-kernel /k -initrd /i ",
            "-smp 2 -m 512 ",
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
        let line = Machine { kvm: Some(Kvm { direct_io: true }), ..machine }.words().join(" ");
        assert!(
            line.contains("-accel kvm -cpu host") && !line.contains("tcg") && !line.contains("mitigations"),
            "{line}"
        );
        assert!(line.contains("discard=unmap,cache.direct=on"), "{line}");
    }
}
