//! One member of a device: a queue, and either places that work side by side (flash) or one head over a platter.

use super::{Time, flash::FlashState, head::Head, part::RequestPart, service::Timing};
use fstrial_model::device_model::DeviceModel;
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;

/// Default number of requests that flash serves concurrently.
const USUAL_PARALLELISM: u16 = 64;
/// Default number of requests from which a rotating disk chooses.
const USUAL_QUEUE: u16 = 32;

#[derive(Debug)]
pub(super) struct Member {
    /// Parts with a waiter, in their order.
    awaited: VecDeque<RequestPart>,
    /// Parts from the cache, in their order.
    write_outs: VecDeque<RequestPart>,
    /// Parts under way.
    busy: usize,
    /// Parts it works on at a time.
    places: usize,
    /// Parts from which the next is chosen.
    choice: usize,
    head: Option<Head>,
    flash: Option<FlashState>,
    /// True if the cache is next, when requests wait for it.
    write_out_next: bool,
}

impl Member {
    pub(super) fn new(model: &DeviceModel, size: u64) -> Self {
        let (places, choice) = match model.disk {
            Some(_) => (1, model.parallelism.unwrap_or(USUAL_QUEUE)),
            None => (model.parallelism.unwrap_or(USUAL_PARALLELISM), 1),
        };
        Self {
            awaited: VecDeque::new(),
            write_outs: VecDeque::new(),
            busy: 0,
            places: places.into(),
            choice: choice.into(),
            head: model.disk.map(|disk| Head::new(&disk, size)),
            flash: model.flash.map(|flash| FlashState::new(&flash, size)),
            write_out_next: false,
        }
    }

    pub(super) fn push(&mut self, part: RequestPart) {
        if part.is_write_out() { self.write_outs.push_back(part) } else { self.awaited.push_back(part) }
    }

    /// Parts that wait or are under way.
    pub(super) fn waiting(&self) -> usize {
        self.awaited.len() + self.busy
    }

    /// Begins a part if there is one and a place for it; returns its duration.
    pub(super) fn begin(
        &mut self,
        now: Time,
        is_urgent: bool,
        timing: &Timing,
        random: &mut ChaCha8Rng,
    ) -> Option<(RequestPart, Time)> {
        if self.busy >= self.places {
            return None;
        }
        let part = self.choose(now, is_urgent)?;
        self.busy += 1;
        let latency = if part.is_write { &timing.write } else { &timing.read };
        let mut took = latency.draw(part.length, random);
        if let Some(head) = &mut self.head {
            took += head.work(now, &part);
        }
        if let Some(flash) = self.flash.as_mut().filter(|_| part.is_write) {
            took += flash.write(now, part.offset, part.length);
        }
        Some((part, took))
    }

    pub(super) fn end(&mut self) {
        self.busy -= 1;
    }

    /// Writes in no time.
    pub(super) fn remember(&mut self, offset: u64, length: u64) {
        if let Some(flash) = &mut self.flash {
            flash.write_for_free(offset, length);
        }
    }

    /// Forgets the data of a range.
    pub(super) fn forget(&mut self, offset: u64, length: u64) {
        if let Some(flash) = &mut self.flash {
            flash.forget(offset, length);
        }
    }

    /// Takes the next part out of its queue. Parts with a waiter go first; the cache is written out when there is no
    /// such part, or when requests wait for that.
    fn choose(&mut self, now: Time, is_urgent: bool) -> Option<RequestPart> {
        let Some(head) = &self.head else {
            // Side by side: in turn, as long as both have something.
            self.write_out_next = is_urgent && !self.write_out_next;
            return if self.write_out_next {
                self.write_outs.pop_front().or_else(|| self.awaited.pop_front())
            } else {
                self.awaited.pop_front().or_else(|| self.write_outs.pop_front())
            };
        };
        let considers_both = is_urgent || self.awaited.is_empty();
        let write_outs = if considers_both { self.choice } else { 0 };
        let awaited = self.awaited.iter().take(self.choice).enumerate().map(|(at, part)| (false, at, part));
        let cached = self.write_outs.iter().take(write_outs).enumerate().map(|(at, part)| (true, at, part));
        let nearest = awaited.chain(cached).min_by_key(|(_, _, part)| head.reach(now, part));
        let (is_write_out, at, _) = nearest?;
        if is_write_out { self.write_outs.remove(at) } else { self.awaited.remove(at) }
    }
}
