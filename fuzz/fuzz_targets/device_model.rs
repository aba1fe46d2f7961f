//! Device models: any text is an error that can be shown, or a model that prints itself, reads back, and completes every
//! request, once and not before it came.
#![no_main]

use fstrial_device::simulator::{Kind, Request, Simulator};
use fstrial_model::{device_model::DeviceModel, units::Bytes};
use libfuzzer_sys::fuzz_target;

const SIZE: Bytes = Bytes(3 * (1 << 20) + 4096);
const REQUESTS: u64 = 300;

fuzz_target!(|text: &str| match DeviceModel::parse("model.toml", text) {
    Ok(model) => {
        let again = toml::to_string(&model).expect("a model is plain data");
        assert_eq!(DeviceModel::parse("again.toml", &again).expect("it was accepted"), model);
        let mut device = Simulator::new(&model, SIZE, 1);
        let mut complete = Vec::new();
        for id in 0..REQUESTS {
            let kind = Kind::ALL[usize::from(id.wrapping_mul(0x9E37_79B9) as u8) % 4];
            let length = (1 + id % 40) * 4096;
            let offset = id.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (SIZE.0 - length) / 512 * 512;
            device.submit(id * 1000, id, Request { kind, offset, length });
        }
        let mut steps = 0;
        while let Some(at) = device.next_event() {
            device.advance(at, &mut complete);
            steps += 1;
            assert!(steps < 10_000_000, "it comes to an end");
        }
        complete.sort_by_key(|done| done.id);
        assert_eq!(complete.len() as u64, REQUESTS);
        assert!(complete.iter().all(|done| done.at >= done.id * 1000));
    }
    Err(error) => {
        let mut shown = String::new();
        let report = miette::GraphicalReportHandler::new();
        report.render_report(&mut shown, &*error).expect("an error can be shown");
    }
});
