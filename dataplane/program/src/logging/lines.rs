//! Writes log lines to standard error. A thread writes them, many at a time, so that no request or delivery waits for a write.

use std::io::{self, Write};
use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// The longest time that a line waits for further lines. The first line after a pause is written at once.
const DELAY: Duration = Duration::from_millis(50);
/// The number of bytes that are written at once, without waiting for [`DELAY`].
const ENOUGH: usize = 32 * 1024;
/// The limit of waiting bytes. A further line waits until they are written; none is lost.
const ROOM: usize = 256 * 1024;

/// Takes lines, and writes them at most 50 ms later. Clones share everything.
#[derive(Clone)]
pub(super) struct Lines(Arc<LogQueue>);

struct LogQueue {
    waiting: Mutex<LineBuffer>,
    /// Notified when lines wait, when there are enough of them, and at the end.
    arrived: Condvar,
    out: Mutex<Out>,
}

#[derive(Default)]
struct LineBuffer {
    lines: Vec<u8>,
    /// Whether each line is written at once from now on.
    ended: bool,
}

struct Out {
    writer: Box<dyn Write + Send>,
    /// The lines that are being written. Between writes it is empty, and only its memory is kept.
    lines: Vec<u8>,
}

impl Lines {
    /// Starts the thread that writes.
    pub(super) fn new(writer: impl Write + Send + 'static) -> Self {
        let out = Out { writer: Box::new(writer), lines: Vec::new() };
        let (waiting, arrived) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(LogQueue { waiting, arrived, out: Mutex::new(out) });
        let writing = Arc::clone(&shared);
        let spawned = thread::Builder::new().name("log".to_owned()).spawn(move || writing.write());
        shared.waiting.lock().ended = spawned.is_err();
        Self(shared)
    }

    /// Writes the lines that wait. Later lines are written at once.
    pub(super) fn end(&self) {
        self.0.waiting.lock().ended = true;
        self.0.arrived.notify_one();
        self.0.flush();
    }
}

impl LogQueue {
    /// Takes a line, and writes it before it returns if that is necessary.
    fn take(&self, line: &[u8], at_once: bool) {
        let mut waiting = self.waiting.lock();
        let before = waiting.lines.len();
        waiting.lines.extend_from_slice(line);
        let (after, at_once) = (waiting.lines.len(), at_once || waiting.ended);
        drop(waiting);
        if at_once || after >= ROOM {
            self.flush();
        } else if before == 0 || (before < ENOUGH && after >= ENOUGH) {
            self.arrived.notify_one();
        }
    }

    /// Writes the lines that wait now, in order of arrival.
    fn flush(&self) {
        // The lines are written in this order, so that later lines come after these.
        let mut out = self.out.lock();
        let Out { writer, lines } = &mut *out;
        mem::swap(lines, &mut self.waiting.lock().lines);
        let _ = writer.write_all(lines); // there is no other place to report it
        lines.clear();
    }

    /// The thread: writes lines until the end.
    fn write(&self) {
        let mut waiting = self.waiting.lock();
        while !waiting.ended {
            let empty = |waiting: &mut LineBuffer| waiting.lines.is_empty() && !waiting.ended;
            self.arrived.wait_while(&mut waiting, empty);
            drop(waiting);
            self.flush();
            waiting = self.waiting.lock();
            let few = |waiting: &mut LineBuffer| waiting.lines.len() < ENOUGH && !waiting.ended;
            self.arrived.wait_while_for(&mut waiting, few, DELAY);
        }
    }
}

/// Takes one line.
pub(super) struct LineWriter<'a> {
    shared: &'a LogQueue,
    at_once: bool,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter { shared: &self.0, at_once: true }
    }

    /// Warnings and errors are written at once: the process may be about to end.
    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> LineWriter<'a> {
        LineWriter { shared: &self.0, at_once: *metadata.level() <= Level::WARN }
    }
}

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.shared.take(line, self.at_once);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::panic;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Instant;

    use super::*;
    use crate::logging::{Logging, log_panics};

    /// Collects the lines that are written, and counts the writes.
    #[derive(Clone, Default)]
    struct File(Arc<Mutex<Vec<u8>>>, Arc<AtomicUsize>);

    impl Write for File {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.fetch_add(1, Ordering::SeqCst);
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl File {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().clone()).expect("text")
        }
    }

    /// A writer that needs one message from the test for each write.
    struct Pipe(File, Receiver<()>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.1.recv(); // does not wait once the test has dropped the sender
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn until(what: &str, condition: impl Fn() -> bool) {
        let begun = Instant::now();
        while !condition() {
            assert!(begun.elapsed() < Duration::from_secs(10), "{what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn stopped_pipe() -> (File, Lines, Sender<()>) {
        let (file, (leave, awaits)) = (File::default(), channel());
        (file.clone(), Lines::new(Pipe(file, awaits)), leave)
    }

    #[test]
    fn lone_line_is_written_without_another() {
        let file = File::default();
        let lines = Lines::new(file.clone());
        for text in ["one\n", "one\ntwo\n"] {
            lines.0.take(&text.as_bytes()[text.len() - 4..], false);
            until(text, || file.text() == text);
        }
        lines.end();
    }

    #[test]
    fn end_of_logging_writes_the_lines_that_wait() {
        assert_eq!((ENOUGH, ROOM), (32_768, 262_144), "the documented numbers");
        let file = File::default();
        let logging = Logging(Lines::new(file.clone()));
        logging.0.0.take(b"first\n", false);
        until("the first line is written", || !file.text().is_empty());
        // It waits for further lines now.
        logging.0.0.take(b"second\n", false);
        drop(logging);
        assert_eq!(file.text(), "first\nsecond\n");
    }

    #[test]
    fn many_lines_are_written_together_and_in_order() {
        let file = File::default();
        let lines = Lines::new(file.clone());
        let expected: String = (0..1_000).map(|number| format!("line {number}\n")).collect();
        for line in expected.split_inclusive('\n') {
            lines.0.take(line.as_bytes(), false);
        }
        lines.end();
        assert_eq!(file.text(), expected);
        assert!(file.1.load(Ordering::SeqCst) < 100, "{} writes", file.1.load(Ordering::SeqCst));
    }

    #[test]
    fn warning_is_written_before_its_program_continues() {
        let file = File::default();
        let lines = Lines::new(file.clone());
        let subscriber = tracing_subscriber::fmt().with_writer(lines.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!("first");
            tracing::info!("second");
            tracing::warn!("third");
        });
        let text = file.text();
        let ends: Vec<_> = text.lines().map(|line| line.rsplit(' ').next()).collect();
        assert_eq!(ends, [Some("first"), Some("second"), Some("third")]);
        lines.end();
    }

    #[test]
    fn panic_is_logged_by_its_place_and_without_its_message() {
        let file = File::default();
        let lines = Lines::new(file.clone());
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(lines.clone()).finish();
        let before = panic::take_hook();
        log_panics();
        let panicked = tracing::subscriber::with_default(subscriber, || {
            panic::catch_unwind(|| "hunter2".parse::<u8>().expect("hunter2 is no number"))
        });
        panic::set_hook(before);
        lines.end();
        let text = file.text();
        assert!(panicked.is_err() && text.contains(file!()) && !text.contains("hunter2"), "{text}");
    }

    #[test]
    fn end_writes_what_waits_and_then_each_line_at_once() {
        let (file, lines, leave) = stopped_pipe();
        lines.0.take(b"taken\n", false);
        until("the thread writes", || lines.0.waiting.lock().lines.is_empty());
        lines.0.take(b"waits\n", false);
        drop(leave);
        lines.end();
        assert_eq!(file.text(), "taken\nwaits\n");
        lines.0.take(b"late\n", false);
        assert_eq!(file.text(), "taken\nwaits\nlate\n");
    }

    #[test]
    fn lines_wait_for_a_writer_that_stands_still_and_none_is_lost() {
        const LINE: &[u8] = &[b'x'; 1_000];
        const COUNT: usize = 2_000;
        let (file, lines, leave) = stopped_pipe();
        let taken = Arc::new(AtomicUsize::new(0));
        let threads = [(); 4].map(|()| {
            let (lines, taken) = (lines.clone(), Arc::clone(&taken));
            thread::spawn(move || {
                for _ in 0..COUNT / 4 {
                    lines.0.take(LINE, false);
                    taken.fetch_add(1, Ordering::SeqCst);
                }
            })
        });
        until("there is no more room", || lines.0.waiting.lock().lines.len() >= ROOM);
        while taken.load(Ordering::SeqCst) < COUNT {
            let waiting = lines.0.waiting.lock().lines.len();
            assert!(waiting <= ROOM + threads.len() * LINE.len(), "{waiting} bytes");
            leave.send(()).expect("the pipe is open");
            thread::yield_now();
        }
        drop(leave);
        for thread in threads {
            thread.join().expect("no panic");
        }
        lines.end();
        assert_eq!(file.0.lock().len(), COUNT * LINE.len());
    }
}
