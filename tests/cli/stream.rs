//! JSON Lines as a stream: in order, as each line arrives, whatever the other lines are.

use crate::fixture::{NOTE, laya_cli, parsed, request, run};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::sync::mpsc;
use std::time::Duration;

/// Long enough for any machine: it ends a test that would hang otherwise.
const PATIENCE: Duration = Duration::from_secs(300);

#[test]
fn a_line_is_answered_before_the_next_arrives() {
    let mut child = laya_cli(&["--jsonl", "-"]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let (send, answers) = mpsc::channel();
    std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));

    for (line, has) in
        [(request("1", "\"a\""), "answers"), ("{\"id\": 2".into(), "error"), (request("3", "\"c\""), "id")]
    {
        writeln!(stdin, "{line}").unwrap();
        let answer = answers.recv_timeout(PATIENCE).expect("an answer while the pipe is open");
        assert!(parsed(&answer).get(has).is_some(), "{answer}");
    }
    drop(stdin);
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{stderr}");
    assert!(answers.recv_timeout(PATIENCE).is_err(), "more lines out than in");
    assert!(stderr.contains("laya jsonl: 3 lines, 1 errors, ") && stderr.contains("1 of 3 failed"), "{stderr}");
}

#[test]
fn a_reader_that_leaves_ends_the_tool_quietly() {
    let mut child = laya_cli(&["--jsonl", "-"]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    writeln!(stdin, "{}", request("1", "\"a\"")).unwrap();
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(line.ends_with("}\n"), "{line:?}");
    drop(stdout);
    // The tool notices at its next answer; until then it takes what it is given.
    while child.try_wait().unwrap().is_none() && writeln!(stdin, "{}", request("2", "\"b\"")).is_ok() {}
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{stderr}");
    assert_eq!(stderr, NOTE);
}

#[test]
fn a_reader_that_leaves_ends_the_tool_though_its_input_stays_open() {
    let mut child = laya_cli(&["--jsonl", "-"]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    writeln!(stdin, "{}", request("1", "\"a\"")).unwrap();
    stdout.read_line(&mut String::new()).unwrap();
    drop(stdout);
    // One more answer, and then neither a line nor the end of the input.
    writeln!(stdin, "{}", request("2", "\"b\"")).unwrap();
    let (send, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        send.send((child.wait().unwrap().code(), stderr))
    });
    let (code, stderr) = ended.recv_timeout(PATIENCE).expect("the tool ends while its input is open");
    assert_eq!((code, stderr.as_str()), (Some(0), NOTE));
    drop(stdin);
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_tool_at_once_and_keeps_whole_lines() {
    use std::os::unix::process::ExitStatusExt as _;
    // A job that a script starts in the background ignores the interrupt, and so do its children.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    if ignored.is_some_and(|signals| signals & 0b10 != 0) {
        println!("skipped: the interrupt is ignored here");
        return;
    }
    let mut child = laya_cli(&["--jsonl", "-"]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    writeln!(stdin, "{}", request("1", "\"a\"")).unwrap();
    let mut text = String::new();
    stdout.read_line(&mut text).unwrap();
    // The tool now waits for its next line; the signal is there before the end of the input is.
    let killed = std::process::Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status().unwrap();
    assert!(killed.success());
    drop(stdin);
    stdout.read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(2));
    assert!(text.ends_with("}\n") && text.lines().count() == 1, "{text}");
}

#[test]
fn every_line_in_has_its_line_out() {
    let good = |id: &str| request(id, "\"ok\"").into_bytes();
    let cases: Vec<(Vec<u8>, &str)> = vec![
        // (line, what its answer must hold)
        ([b"\xEF\xBB\xBF".to_vec(), good("\"first\"")].concat(), r#"{"id":"first","model":"#),
        (b"".to_vec(), r#"{"error":"empty line"}"#),
        (b"   ".to_vec(), r#"{"error":"empty line"}"#),
        (br#"{"state": "x""#.to_vec(), r#"{"error":"failed to parse JSON: "#),
        (b"plain text".to_vec(), r#"{"error":"failed to parse JSON: "#),
        ([b"\xEF\xBB\xBF".to_vec(), good("6")].concat(), r#"{"error":"failed to parse JSON: "#),
        (b"{\"state\": \"\xFF\xFE\"}".to_vec(), r#"{"error":"failed to parse JSON: "#),
        (b"[".repeat(100_000), r#"{"error":"failed to parse JSON: "#),
        (b"[1]".to_vec(), r#"{"error":"the request must be a JSON object, got list"}"#),
        (br#"{"id": 10, "state": null, "questions": {}}"#.to_vec(), r#"{"id":10,"error":"state must not be None; "#),
        (br#"{"id": [1, "a"], "state": "x"}"#.to_vec(), r#"{"id":[1,"a"],"error":"questions must be a dict"#),
        (br#"{"id": null, "state": 1, "questions": {"q": 1}}"#.to_vec(), r#"{"id":null,"error":"#),
        (br#"{"state": 1e999, "questions": {}}"#.to_vec(), r#"{"error":"failed to parse JSON: "#),
        (br#"{"state": "", "questions": {}}"#.to_vec(), r#"{"model":"#),
        ([good("{\"k\": 1.0}"), b"\r".to_vec()].concat(), r#"{"id":{"k":1.0},"model":"#),
        (good("\"последняя\""), r#"{"id":"последняя","model":"#),
    ];
    let n_failed = cases.iter().filter(|(_, answer)| answer.contains("\"error\"")).count();
    let input: Vec<u8> = cases.iter().map(|(line, _)| line.as_slice()).collect::<Vec<_>>().join(&b'\n');
    let (code, stdout, stderr) = run(laya_cli(&["--jsonl", "-"]), &input);
    let answers: Vec<&str> = stdout.lines().collect();
    assert_eq!(answers.len(), cases.len(), "{stdout}");
    for ((line, start), answer) in cases.iter().zip(answers) {
        let line = String::from_utf8_lossy(line.get(..80).unwrap_or(line));
        assert!(answer.starts_with(start), "{line}\n{answer}");
        parsed(answer);
    }
    assert_eq!(code, Some(1));
    assert!(stderr.contains(&format!("{n_failed} of {} failed", cases.len())), "{stderr}");
}

#[test]
fn a_line_does_not_depend_on_the_lines_before_it() {
    let long = request("1", &format!("\"{}\"", "long state ".repeat(500)));
    let line = request("2", "\"short\"");
    let (_, alone, _) = run(laya_cli(&["--jsonl", "-"]), line.as_bytes());
    let (code, both, _) = run(laya_cli(&["--jsonl", "-"]), format!("{long}\n{line}\n").as_bytes());
    assert_eq!(code, Some(0));
    assert_eq!(both.lines().nth(1), alone.lines().next());
}

#[test]
fn lines_that_share_a_pass_are_answered_as_they_would_be_alone() {
    let long = request("\"long\"", &format!("\"{}\"", "a long state ".repeat(2000)));
    let five = br#"{"id": "five", "state": ["turn", "turn"], "questions": {
        "a": {"type": "choice", "instructions": "Topic?", "criteria": ["x", "y", "z"]},
        "b": {"type": "score", "instructions": "How?", "criteria": ["low", "high"]},
        "c": {"type": "noul", "instructions": "Paid?"}, "d": {"type": "noul", "instructions": "Sent?"},
        "e": {"type": "choice", "instructions": "Topic?", "criteria": ["x", "y", "z"]}}}"#;
    let five = String::from_utf8_lossy(five).replace('\n', " ");
    let none = r#"{"id": "none", "state": 1, "questions": {}}"#;
    let too_many =
        r#"{"id": "cut", "state": 1, "max_len": 8, "questions": {"q": {"type": "noul", "instructions": "?"}}}"#;
    let short = |n: usize| request(&n.to_string(), &format!("\"state {n}\""));
    let different = [short(1), "{".into(), long, five, none.into(), short(2), String::new(), too_many.into()];
    let alone: Vec<String> =
        different.iter().map(|line| run(laya_cli(&["--jsonl", "-"]), format!("{line}\n").as_bytes()).1).collect();
    // Several passes of several lines, each line in several places of one.
    let order: Vec<usize> = (0..150).map(|i| (i * i + i / 7) % different.len()).collect();
    let input: String = order.iter().map(|i| format!("{}\n", different[*i])).collect();
    let expected: String = order.iter().map(|i| alone[*i].as_str()).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lines.jsonl");
    std::fs::write(&file, &input).unwrap();
    let file = file.to_str().unwrap();
    for plan in [&[][..], &["--plan", "packed", "-t", "2"], &["--plan", "sequential"]] {
        for from in ["-", file] {
            let input = if from == "-" { input.as_bytes() } else { b"" };
            let (code, stdout, stderr) = run(laya_cli(&[&["--jsonl", from], plan].concat()), input);
            assert_eq!(code, Some(1), "{stderr}");
            // It says which it was.
            assert_eq!(stdout.contains(r#""plan":"sequential""#), plan.contains(&"sequential"));
            let stdout = stdout.replace(r#""plan":"sequential""#, r#""plan":"packed""#);
            assert!(stdout == expected, "{plan:?} {from}");
        }
    }
}

#[test]
fn no_lines_are_no_failure() {
    let (code, stdout, stderr) = run(laya_cli(&["--jsonl", "-"]), b"");
    assert_eq!((code, stdout.as_str()), (Some(0), ""));
    assert!(stderr.starts_with(&format!("{NOTE}laya jsonl: 0 lines, 0 errors, ")), "{stderr}");
}
