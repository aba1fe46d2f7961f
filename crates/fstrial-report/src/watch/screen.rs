//! The terminal: taken over, drawn on, read, and restored in all cases.

use super::{
    look::Look,
    model::Model,
    view::{self, Choices, Move},
};
use crate::is_unicode;
use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::Show,
        event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
        execute,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::{
    io::{self, BufWriter, IsTerminal, Write},
    sync::{
        Once,
        atomic::{AtomicU8, Ordering},
    },
    time::{Duration, Instant},
};

/// At most so often the picture is drawn again.
const MIN_GAP: Duration = Duration::from_millis(250);
/// While something is measured, and when nothing but the time has changed.
const CALM_GAP: Duration = Duration::from_secs(1);

/// Output of the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Standard output: the picture is the answer.
    Standard = 1,
    /// Standard error, where progress goes.
    Error = 2,
}

impl Output {
    /// True if it can show a picture, and keys can be read.
    pub fn is_screen(self) -> bool {
        let is_terminal = match self {
            Self::Standard => io::stdout().is_terminal(),
            Self::Error => io::stderr().is_terminal(),
        };
        let is_dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        is_terminal && io::stdin().is_terminal() && !is_dumb
    }

    fn stream(self) -> Box<dyn Write + Send> {
        match self {
            Self::Standard => Box::new(io::stdout()),
            Self::Error => Box::new(io::stderr()),
        }
    }
}

/// The output that was taken over, as its number; 0 if none is.
static TAKEN: AtomicU8 = AtomicU8::new(0);

/// Restores the terminal, if it was taken: cooked mode, the cursor, and its former content.
fn give_back() {
    let output = match TAKEN.swap(0, Ordering::SeqCst) {
        0 => return,
        1 => Output::Standard,
        _ => Output::Error,
    };
    // If the terminal is gone there is no place for a report.
    let _ = disable_raw_mode();
    let _ = execute!(output.stream(), LeaveAlternateScreen, Show);
}

/// Prints a panic on the restored terminal.
fn give_back_at_panic() {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
    });
}

/// A user's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    Quit,
    /// Interrupt the trial.
    Interrupt,
    Look(Move),
    /// The terminal has another size.
    Redraw,
}

/// The terminal while it is ours.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Box<dyn Write + Send>>>>,
    look: Look,
    choices: Choices,
    drawn: Option<Instant>,
    /// A key was pressed, or the size has changed, since it was drawn.
    is_stale: bool,
}

impl Screen {
    /// Takes the terminal over until this is dropped.
    ///
    /// # Errors
    /// The terminal refused.
    pub fn take(output: Output) -> io::Result<Self> {
        give_back_at_panic();
        TAKEN.store(output as u8, Ordering::SeqCst);
        let taken = enable_raw_mode()
            .and_then(|()| execute!(output.stream(), EnterAlternateScreen))
            .and_then(|()| Terminal::new(CrosstermBackend::new(BufWriter::new(output.stream()))));
        let terminal = taken.inspect_err(|_| give_back())?;
        let variable = |name: &str| std::env::var(name).ok();
        let colour = variable("NO_COLOR").is_none_or(|value| value.is_empty());
        let look = Look { unicode: is_unicode(variable), colour };
        Ok(Self { terminal, look, choices: Choices::default(), drawn: None, is_stale: false })
    }

    /// When it is time to draw again. `has_changed`: there is something new; `is_measuring`: drawing may disturb.
    pub fn due(&self, has_changed: bool, is_measuring: bool) -> Duration {
        due(self.drawn.map(|drawn| drawn.elapsed()), self.is_stale, has_changed && !is_measuring)
    }

    /// Draws the picture; `now` is on the model's clock, in seconds.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&mut self, model: &Model, now: f64) -> io::Result<()> {
        let (choices, look) = (&mut self.choices, self.look);
        self.terminal.draw(|frame| view::draw(frame, model, choices, look, now))?;
        self.drawn = Some(Instant::now());
        self.is_stale = false;
        Ok(())
    }

    /// Waits for a request, at most this long; events that only concern the picture are handled.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn wait(&mut self, most: Duration, contrasts: usize) -> io::Result<Option<Wish>> {
        hear(most)?;
        if !event::poll(Duration::ZERO)? {
            return Ok(None);
        }
        let wish = wish(&event::read()?, self.choices.help);
        if let Some(Wish::Look(to)) = wish {
            self.choices.go(to, contrasts);
        }
        self.is_stale |= wish.is_some();
        Ok(wish)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Waits for a key, or the signal of a new size. A terminal that is gone can be read without end and gives nothing, which
/// the library that reads keys does not notice.
fn hear(most: Duration) -> io::Result<()> {
    let stdin = io::stdin();
    let mut keys = [PollFd::new(&stdin, PollFlags::IN)];
    let timeout = Timespec::try_from(most).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    match rustix::event::poll(&mut keys, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    match keys[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
        true => Err(io::Error::new(io::ErrorKind::BrokenPipe, "the terminal is gone")),
        false => Ok(()),
    }
}

/// Time until the next picture: see the two gaps.
fn due(since: Option<Duration>, is_stale: bool, is_new: bool) -> Duration {
    let gap = if is_stale || is_new { MIN_GAP } else { CALM_GAP };
    since.map_or(Duration::ZERO, |since| gap.saturating_sub(since))
}

/// Meaning of a terminal event.
fn wish(event: &Event, is_help: bool) -> Option<Wish> {
    let key = match event {
        Event::Resize(..) => return Some(Wish::Redraw),
        Event::Key(key) if key.kind != KeyEventKind::Release => *key,
        _ => return None,
    };
    let KeyEvent { code, modifiers, .. } = key;
    if modifiers.contains(KeyModifiers::CONTROL) {
        return match code {
            KeyCode::Char('c') => Some(Wish::Interrupt),
            KeyCode::Char('l') => Some(Wish::Redraw),
            _ => None,
        };
    }
    Some(match code {
        KeyCode::Esc if is_help => Wish::Look(Move::Help),
        KeyCode::Char('q') | KeyCode::Esc => Wish::Quit,
        KeyCode::Char('j') | KeyCode::Down => Wish::Look(Move::Down),
        KeyCode::Char('k') | KeyCode::Up => Wish::Look(Move::Up),
        KeyCode::PageDown => Wish::Look(Move::PageDown),
        KeyCode::PageUp => Wish::Look(Move::PageUp),
        KeyCode::Char('g') | KeyCode::Home => Wish::Look(Move::Top),
        KeyCode::Char('G') | KeyCode::End => Wish::Look(Move::Bottom),
        KeyCode::Tab | KeyCode::Right => Wish::Look(Move::NextPane),
        KeyCode::BackTab | KeyCode::Left => Wish::Look(Move::PreviousPane),
        KeyCode::Char('?') => Wish::Look(Move::Help),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode, modifiers: KeyModifiers) -> Event {
        Event::Key(KeyEvent::new(code, modifiers))
    }

    #[test]
    fn keys_map_to_documented_actions() {
        let plain = |code| wish(&key(code, KeyModifiers::NONE), false);
        assert_eq!([plain(KeyCode::Char('q')), plain(KeyCode::Esc)], [Some(Wish::Quit); 2]);
        assert_eq!(wish(&key(KeyCode::Esc, KeyModifiers::NONE), true), Some(Wish::Look(Move::Help)));
        assert_eq!(wish(&key(KeyCode::Char('c'), KeyModifiers::CONTROL), false), Some(Wish::Interrupt));
        assert_eq!(plain(KeyCode::Char('c')), None);
        assert_eq!([plain(KeyCode::Char('j')), plain(KeyCode::Down)], [Some(Wish::Look(Move::Down)); 2]);
        assert_eq!([plain(KeyCode::Char('k')), plain(KeyCode::Up)], [Some(Wish::Look(Move::Up)); 2]);
        assert_eq!(plain(KeyCode::Tab), Some(Wish::Look(Move::NextPane)));
        assert_eq!(wish(&Event::Resize(1, 1), false), Some(Wish::Redraw));
    }

    #[test]
    fn redraws_are_limited_to_four_per_second() {
        let ms = Duration::from_millis;
        assert_eq!(due(None, false, false), ms(0));
        assert_eq!(due(Some(ms(100)), true, false), ms(150), "a key");
        assert_eq!(due(Some(ms(100)), false, true), ms(150), "news");
        assert_eq!(due(Some(ms(100)), false, false), ms(900), "only the time");
        assert_eq!(due(Some(ms(2000)), false, false), ms(0));
    }
}
