//! Servers as they answer, and every way they do not.

use std::time::{Duration, Instant};

use crate::mock::{Answer, Server};
use laya::ErrorKind;
use laya::json::{self, Value};
use laya::parity::{Endpoint, MAX_REPLY_BYTES};

fn value(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

/// The error of one question to a server that gives `answer`, which must be one line and name the URL.
#[track_caller]
fn refused(answer: Answer, part: &str) {
    let server = Server::start(move |_| answer.clone());
    let endpoint = Endpoint::with_timeout(&server.url(), Duration::from_secs(5)).unwrap();
    let error = endpoint.post("/x", &Value::from(1_i64)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Endpoint);
    let text = error.to_string();
    assert!(text.starts_with(&format!("{}/x: ", server.url())), "{text}");
    assert!(text.contains(part), "{text:?} does not say {part:?}");
    assert!(!text.contains(char::is_control), "{text:?}");
}

#[test]
fn what_is_sent_arrives_and_what_is_answered_comes_back() {
    let server = Server::start(|asked| match asked.path.as_str() {
        "/api/echo" => Answer::json(asked.json()),
        "/api/busy" => Answer::status(503, value(r#"{"error": {"message": "loading"}}"#)),
        _ => Answer::status(404, value(r#"{"error": "no such route"}"#)),
    });
    let endpoint = Endpoint::new(&format!("{}/api/", server.url())).unwrap();
    let body = value(r#"{"text": "h\u00e9 \u2028 \n", "x": [1, 2.5, null]}"#);
    let reply = endpoint.post("/echo", &body).unwrap();
    assert_eq!((reply.status, &reply.body), (200, &body));
    // A status of failure is an answer: the caller knows what it means.
    assert_eq!(endpoint.post("/busy", &body).unwrap().status, 503);
    assert_eq!(endpoint.get("health").unwrap().status, 404);
    let asked = server.asked();
    let lines: Vec<_> = asked.iter().map(|asked| format!("{} {}", asked.method, asked.path)).collect();
    assert_eq!(lines, ["POST /api/echo", "POST /api/busy", "GET /api/health"]);
    assert_eq!(asked[0].json(), body);
    assert!(asked[2].body.is_empty());
}

#[test]
fn every_way_an_answer_can_be_wrong() {
    refused(Answer::Body(200, b"<html>\x1b[2J</html>".to_vec()), "status 200 with \"<html>\\u{1b}[2J</html>\"");
    refused(Answer::Body(502, b"x".repeat(1000)), "x\"..., which is not JSON");
    refused(Answer::Body(200, Vec::new()), "status 200 with nothing");
    refused(Answer::Body(200, b"[1".to_vec()), "is not JSON");
    refused(Answer::Body(200, b"\xff\xfe".to_vec()), "is not JSON");
    refused(Answer::Raw(Vec::new()), "closed the connection");
    refused(Answer::Raw(b"220 mail.example ESMTP\r\n".to_vec()), "does not speak HTTP");
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n[1,";
    refused(Answer::Raw(cut.as_bytes().to_vec()), "closed the connection");
    let moved = "HTTP/1.1 302 Found\r\nlocation: http://example.com/\r\ncontent-length: 0\r\n\r\n";
    refused(Answer::Raw(moved.as_bytes().to_vec()), "status 302 with nothing");
    // It says that it will send more than is read.
    let long = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", MAX_REPLY_BYTES + 1);
    let bytes = [long.as_bytes(), &vec![b' '; MAX_REPLY_BYTES as usize + 1]].concat();
    refused(Answer::Raw(bytes), "more than 64 MiB");
}

#[test]
fn a_server_that_hangs_or_is_not_there() {
    let server = Server::start(|_| Answer::Hang);
    let endpoint = Endpoint::with_timeout(&server.url(), Duration::from_millis(300)).unwrap();
    let start = Instant::now();
    let text = endpoint.get("/x").unwrap_err().to_string();
    assert!(text.contains("/x: no answer within 0.3 s") && text.contains("allow more time"), "{text}");
    assert!(start.elapsed() < Duration::from_secs(10));

    let url = Server::nobody();
    let text = Endpoint::new(&url).unwrap().get("/x").unwrap_err().to_string();
    assert_eq!(text, format!("{url}/x: connection refused; is the server running, and is this its URL?"));
}
