//! A receiver of webhooks on loopback, which answers as a test tells it to.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::Value;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Got {
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Got {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub fn id(&self) -> String {
        self.headers["webhook-id"].clone()
    }

    pub fn position(&self) -> i64 {
        self.json()["data"]["position"].as_i64().unwrap()
    }

    pub fn stream(&self) -> String {
        self.json()["data"]["stream"]["id"].as_str().unwrap().to_owned()
    }

    pub fn event_type(&self) -> String {
        self.json()["type"].as_str().unwrap().to_owned()
    }
}

/// What is answered.
#[derive(Debug, Clone)]
pub enum Reply {
    /// A status.
    Status(u16),
    /// A status and a header.
    With(u16, String),
    /// Nothing, until the receiver is let go; then the connection ends.
    Hang,
    /// A status, once the receiver is let go.
    Late(u16),
    /// 200 and a body without end.
    Endless,
    /// Something that is no HTTP.
    Garbage,
}

type Rule = Box<dyn Fn(&Got) -> Reply + Send + Sync>;

struct Shared {
    got: Mutex<Vec<Got>>,
    rule: Mutex<Rule>,
    let_go: Mutex<bool>,
    changed: Condvar,
}

/// See the module.
pub struct Receiver {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

impl Receiver {
    /// One that takes everything.
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            got: Mutex::default(),
            rule: Mutex::new(Box::new(|_| Reply::Status(204))),
            let_go: Mutex::default(),
            changed: Condvar::new(),
        });
        let of_all = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&of_all);
                // Whoever breaks off is heard by the thread's end.
                std::thread::spawn(move || drop(serve(&stream, &shared)));
            }
        });
        Self { address, shared }
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook?key=hush-key", self.address)
    }

    /// What is answered from now on.
    pub fn answers(&self, rule: impl Fn(&Got) -> Reply + Send + Sync + 'static) {
        *self.shared.rule.lock().unwrap() = Box::new(rule);
    }

    /// Everything that came so far, in order.
    pub fn got(&self) -> Vec<Got> {
        self.shared.got.lock().unwrap().clone()
    }

    /// What hangs ends, and what is late comes.
    pub fn let_go(&self) {
        *self.shared.let_go.lock().unwrap() = true;
        self.shared.changed.notify_all();
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.let_go();
    }
}

fn serve(stream: &TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    // A sender that breaks off in the middle has sent nothing.
    let read = |reader: &mut BufReader<&TcpStream>, line: &mut String| match reader.read_line(line)? {
        0 => Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof)),
        _ => Ok(()),
    };
    read(&mut reader, &mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        read(&mut reader, &mut line)?;
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let got = Got { path, headers, body: String::from_utf8(body).unwrap() };
    let reply = (shared.rule.lock().unwrap())(&got);
    shared.got.lock().unwrap().push(got);
    let mut to = stream;
    match reply {
        Reply::Status(status) => answer(to, status, ""),
        Reply::With(status, header) => answer(to, status, &format!("{header}\r\n")),
        Reply::Hang => {
            wait(shared);
            Ok(())
        }
        Reply::Late(status) => {
            wait(shared);
            answer(to, status, "")
        }
        Reply::Endless => {
            to.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
            loop {
                to.write_all(b"1000\r\n")?;
                to.write_all(&[b'x'; 0x1000])?;
                to.write_all(b"\r\n")?;
            }
        }
        Reply::Garbage => to.write_all(b"220 ready\r\n"),
    }
}

fn wait(shared: &Shared) {
    let mut let_go = shared.let_go.lock().unwrap();
    while !*let_go {
        let_go = shared.changed.wait(let_go).unwrap();
    }
}

fn answer(mut to: &TcpStream, status: u16, header: &str) -> std::io::Result<()> {
    to.write_all(
        format!("HTTP/1.1 {status} X\r\n{header}content-length: 0\r\nconnection: close\r\n\r\n").as_bytes(),
    )
}
