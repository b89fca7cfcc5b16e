//! Chromium without a window, driven by the DevTools protocol over two pipes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::home::Home;

/// Makes Chromium's third and fourth descriptor the pipes of the test.
const START: &str = "exec chromium \"$@\" 3<&0 4>&1 0</dev/null 1>&2";

/// Longest wait in the page for a condition, in milliseconds.
const PATIENCE_MS: u32 = 30_000;

/// Chromium with one page; it ends with this value.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    calls: u64,
    session: Option<String>,
    /// Errors of scripts, and loads and code that the page's policy refused.
    pub wrong: Vec<String>,
}

impl Browser {
    /// Starts it with an empty page of 1280 by 900 pixels.
    pub fn start(home: &Home) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", START, "sh"]);
        // Root has no sandbox in a container; the page is our own.
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        command.args(["--window-size=1280,900", "--remote-debugging-pipe", "about:blank"]);
        command.arg(format!("--user-data-dir={}", home.path("profile").display()));
        command.env("HOME", home.path("home")).env("TZ", "UTC");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap());
        let mut browser = Self { child, to, from, calls: 0, session: None, wrong: Vec::new() };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", &attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, &json!({}));
        }
        browser
    }

    /// Goes to an address.
    pub fn go(&mut self, address: &str) {
        self.call("Page.navigate", &json!({ "url": address }));
    }

    /// Returns the value of an expression in the page.
    #[track_caller]
    pub fn eval(&mut self, expression: &str) -> Value {
        let asked =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", &asked);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true in the page, and returns its value.
    #[track_caller]
    pub fn until(&mut self, expression: &str) -> Value {
        let looking = format!(
            "new Promise((resolve) => {{ const end = Date.now() + {PATIENCE_MS}; const look = () => {{ \
             let value; try {{ value = ({expression}); }} catch {{ value = null; }} \
             if (value || Date.now() > end) resolve(value || null); else setTimeout(look, 20); }}; look(); }})"
        );
        let asked = json!({ "expression": looking, "awaitPromise": true, "returnByValue": true });
        let found = loop {
            match self.attempt("Runtime.evaluate", &asked) {
                Ok(answer) => break answer["result"]["value"].clone(),
                // The page looked in was left; the next one is looked in.
                Err(error)
                    if error["message"].as_str().is_some_and(|it| it.contains("navigated")) => {}
                Err(error) => panic!("{expression}: {error}"),
            }
        };
        if found.is_null() {
            let page = self.eval("document.body.innerText");
            panic!("not within {PATIENCE_MS} ms: {expression}\n{page}\n{:?}", self.wrong);
        }
        found
    }

    /// Returns the texts of all elements that a selector finds.
    pub fn texts(&mut self, selector: &str) -> Vec<String> {
        let found = self.eval(&format!(
            "[...document.querySelectorAll({})].map((each) => each.textContent)",
            json!(selector)
        ));
        serde_json::from_value(found).unwrap()
    }

    /// Presses a key that is no letter, by its name and its code on Windows, as the protocol has it.
    pub fn press(&mut self, key: &str, code: u32) {
        for kind in ["rawKeyDown", "keyUp"] {
            let event = json!({ "type": kind, "key": key, "windowsVirtualKeyCode": code });
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Clicks on the first element that a selector finds, as a user does: browsers open tabs for users only.
    pub fn click(&mut self, selector: &str) {
        let place = self.eval(&format!(
            "(() => {{ const found = document.querySelector({}); found.scrollIntoView({{ block: 'center' }}); \
             const box = found.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()",
            json!(selector)
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.attempt(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn attempt(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(message.to_string().as_bytes()).unwrap();
        self.to.write_all(&[0]).unwrap();
        loop {
            let mut text = Vec::new();
            self.from.read_until(0, &mut text).unwrap();
            assert_eq!(text.pop(), Some(0), "Chromium has ended");
            let message: Value = serde_json::from_slice(&text).unwrap();
            if message["id"] == self.calls {
                return match message.get("error") {
                    Some(error) => Err(error.clone()),
                    None => Ok(message["result"].clone()),
                };
            }
            self.note(&message);
        }
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => {
                self.wrong.push(params["exceptionDetails"].to_string());
            }
            // Responses with an error status are a matter of the page.
            Some("Log.entryAdded") if params["entry"]["source"] != "network" => {
                self.wrong.push(params["entry"].to_string());
            }
            _ => {}
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
