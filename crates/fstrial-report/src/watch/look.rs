//! Abilities of the terminal, and the styles that follow from them.

use ratatui::style::{Color, Modifier, Style};

/// Abilities of the terminal.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// True if it has more than ASCII.
    pub unicode: bool,
    pub colour: bool,
}

impl Look {
    pub(super) fn shade(self, colour: Color) -> Color {
        if self.colour { colour } else { Color::Reset }
    }

    pub(super) fn of(self, colour: Color) -> Style {
        Style::new().fg(self.shade(colour))
    }

    pub(super) fn plain(self) -> Style {
        Style::new()
    }

    pub(super) fn pale(self) -> Style {
        self.of(Color::DarkGray)
    }

    pub(super) fn bold(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }
}
