//! A server of the tests: HTTP/1.1 on a port of this machine, one answer a connection.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use laya::json::{self, Value};

/// What was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub body: Vec<u8>,
}

impl Asked {
    /// The body, which is JSON.
    pub fn json(&self) -> Value {
        json::parse(&self.body).unwrap()
    }
}

/// What is answered.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A status and a body.
    Body(u16, Vec<u8>),
    /// These bytes and nothing else, HTTP or not.
    Raw(Vec<u8>),
    /// Nothing, until the server is dropped.
    Hang,
}

impl Answer {
    pub fn json(value: impl Into<Value>) -> Self {
        Self::status(200, value)
    }

    pub fn status(status: u16, value: impl Into<Value>) -> Self {
        Self::Body(status, value.into().dumps().into_bytes())
    }
}

/// A running server; it ends when it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<Asked>>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    /// A server that answers with `answer`, on threads of its own.
    pub fn start(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stopped, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let answer = Arc::new(answer);
        let (stop, record) = (Arc::clone(&stopped), Arc::clone(&asked));
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let (stop, record, answer) = (Arc::clone(&stop), Arc::clone(&record), Arc::clone(&answer));
                thread::spawn(move || serve(stream.unwrap(), &stop, &record, &*answer));
            }
        });
        Self { address, stopped, asked, thread: Some(thread) }
    }

    /// A URL nobody listens to.
    pub fn nobody() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What was asked until now.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        // Wakes the listener.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(mut stream: TcpStream, stopped: &AtomicBool, record: &Mutex<Vec<Asked>>, answer: &dyn Fn(&Asked) -> Answer) {
    let Some(asked) = read(&stream) else { return };
    record.lock().unwrap().push(asked.clone());
    // Whoever asked may be gone: that is for them to judge.
    let _ = match answer(&asked) {
        Answer::Body(status, body) => {
            let head = format!(
                "HTTP/1.1 {status} .\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body))
        }
        Answer::Raw(bytes) => stream.write_all(&bytes),
        Answer::Hang => {
            while !stopped.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(10));
            }
            Ok(())
        }
    };
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut n_bytes = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let (name, value) = line.trim().split_once(':').unwrap_or((line.trim(), ""));
        if name.is_empty() {
            break;
        }
        if name.eq_ignore_ascii_case("content-length") {
            n_bytes = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; n_bytes];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { method, path, body })
}
