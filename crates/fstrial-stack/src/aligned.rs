//! Page-aligned memory for direct I/O, without unsafe code: a vector with room to spare holds an aligned stretch.

/// Alignment that direct I/O asks for at most.
pub const PAGE: usize = 4096;

/// Zeroed memory that begins at a page.
#[derive(Debug)]
pub struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    /// This many bytes.
    pub fn zeroed(length: usize) -> Self {
        let memory = vec![0; length + PAGE];
        let start = memory.as_ptr().align_offset(PAGE);
        Self { memory, start, length }
    }

    /// All of it.
    pub fn all(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    /// All of it, to be written.
    pub fn all_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_is_page_aligned_with_requested_length() {
        for length in [1, 512, PAGE, (1 << 20) + 1] {
            let mut memory = Aligned::zeroed(length);
            assert_eq!(memory.all().as_ptr().align_offset(PAGE), 0);
            assert_eq!((memory.all().len(), memory.all_mut().len()), (length, length));
        }
    }
}
