//! The pages in a real browser: sign in by the link, watch the feed live, see a task park and go on.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fantoccini::{Client, ClientBuilder, Locator};
use serde_json::json;

use super::e2e::installation::{Installation, LIMITS, eventually, signal};
use crate::support::receiver::{Receiver, Reply};
use crate::support::waiting;

/// What a browser takes at most to show something.
const PATIENCE: Duration = Duration::from_secs(30);

const ARGUMENTS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,860",
];

/// A ChromeDriver in a process group of its own: the group is what ends with it, browsers included.
struct Driver {
    child: Child,
    port: u16,
}

impl Driver {
    fn start(installation: &Installation) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .env("HOME", installation.base().join("browser"))
            .env("TMPDIR", installation.base())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("chromedriver isn't installed: apt-get install chromium chromium-driver");
        Self { child, port }
    }

    async fn browser(&self, installation: &Installation) -> Client {
        let folder = installation.base().join("browser");
        fs::create_dir_all(&folder).unwrap();
        let mut arguments: Vec<String> = ARGUMENTS.iter().map(|argument| (*argument).to_owned()).collect();
        arguments.push(format!("--user-data-dir={}", folder.display()));
        let mut capabilities = serde_json::Map::new();
        let options = json!({"binary": "/usr/bin/chromium", "args": arguments});
        capabilities.insert("goog:chromeOptions".into(), options);
        let address = format!("http://127.0.0.1:{}", self.port);
        let connector = hyper_util::client::legacy::connect::HttpConnector::new();
        waiting::eventually(PATIENCE, || {
            let mut builder = ClientBuilder::new(connector.clone());
            builder.capabilities(capabilities.clone());
            let address = address.clone();
            async move { builder.connect(&address).await.map_err(|error| format!("no browser: {error}")) }
        })
        .await
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let group = i32::try_from(self.child.id()).unwrap();
        signal(-group, "KILL");
        let _ = self.child.wait();
    }
}

async fn seen(browser: &Client, css: &str, text: &str) {
    waiting::eventually(PATIENCE, || async {
        let element = browser.find(Locator::Css(css)).await.map_err(|error| error.to_string())?;
        let now = element.text().await.map_err(|error| error.to_string())?;
        if now.contains(text) { Ok(()) } else { Err(format!("`{css}` says {now:?}, not {text:?}")) }
    })
    .await;
}

async fn picture(browser: &Client, name: &str) {
    let Ok(folder) = std::env::var("MULTICA_SCREENSHOTS") else { return };
    fs::create_dir_all(&folder).unwrap();
    let bytes = browser.screenshot().await.unwrap();
    fs::write(format!("{folder}/{name}.png"), bytes).unwrap();
}

/// The webhooks: what went out, what was given up and what is off, each with what helps.
async fn the_webhooks(browser: &Client, base: &str) {
    browser.goto(&format!("{base}/webhooks")).await.unwrap();
    seen(browser, "header.bar a[aria-current]", "Webhooks").await;
    seen(browser, "#webhooks", "multica webhook retry chat --all").await;
    seen(browser, "#webhooks", "multica webhook update former-ci --enable").await;
    seen(browser, "#webhooks caption", "Given up").await;
    picture(browser, "webhooks").await;
}

/// The audit trail: narrowed by its form, an entry opened, an intent followed, a wrong filter told, an export
/// made, and nothing wider than a phone.
async fn the_trail(browser: &Client, base: &str, task: &str) {
    let click = |css: &'static str| async move {
        browser.find(Locator::Css(css)).await.unwrap().click().await.unwrap();
    };
    browser.goto(&format!("{base}/audit")).await.unwrap();
    seen(browser, "header.bar a[aria-current]", "Audit").await;
    browser.find(Locator::Css("input[name=target]")).await.unwrap().send_keys(task).await.unwrap();
    browser.find(Locator::Css("input[name=type]")).await.unwrap().send_keys("task.*").await.unwrap();
    click("form.filters button").await;
    seen(browser, "ol.audit", "completed").await;
    assert!(browser.current_url().await.unwrap().query().unwrap().contains("type=task."));
    click("ol.audit details summary").await;
    seen(browser, "ol.audit details[open]", "Intent").await;
    seen(browser, "ol.audit details[open] pre.data", "{").await;
    picture(browser, "audit").await;
    let followed = "ol.audit details[open] a[href*=correlation]";
    click(followed).await;
    seen(browser, "ol.audit", "queued").await;
    browser.goto(&format!("{base}/audit?type=ghost")).await.unwrap();
    seen(browser, "[role=alert]", "ghost").await;
    browser.goto(&format!("{base}/audit?type=operation")).await.unwrap();
    seen(browser, "main", "Nothing here fits").await;
    click(".ways form button").await;
    // The answer is a file: the page stays, and that it was made is an entry.
    waiting::eventually(PATIENCE, || async {
        browser.goto(&format!("{base}/audit?type=operation")).await.map_err(|error| error.to_string())?;
        let page = browser.find(Locator::Css("main")).await.map_err(|error| error.to_string())?;
        let now = page.text().await.map_err(|error| error.to_string())?;
        if now.contains("exported the audit trail") { Ok(()) } else { Err(format!("it says {now:?}")) }
    })
    .await;
    browser.set_window_size(390, 844).await.unwrap();
    for page in ["audit", "webhooks"] {
        on_a_phone(browser, base, page).await;
    }
}

/// Nothing is wider than the phone.
async fn on_a_phone(browser: &Client, base: &str, page: &str) {
    browser.goto(&format!("{base}/{page}")).await.unwrap();
    let wider = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert_eq!(browser.execute(wider, Vec::new()).await.unwrap(), json!(0), "wider than the phone");
    picture(browser, &format!("{page}-phone")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_signs_in_watches_the_feed_and_sees_a_task_park_and_go_on() {
    let mut installation = Installation::new("browser");
    installation.set("MULTICA_WEBHOOK_TO", "127.0.0.1");
    let soon = format!(r#"{{"webhook_retries":[50,50],{}"#, LIMITS.replace('\n', "").trim_start_matches('{'));
    installation.set("MULTICA_LIMITS", &soon);
    installation.up();
    let receiver = Receiver::new();
    receiver.answers(|got| match (got.path.as_str(), got.event_type().as_str()) {
        ("/gone", _) => Reply::Status(410),
        (_, "task.queued") => Reply::Status(500),
        _ => Reply::Status(204),
    });
    for (name, path) in [("chat", "/hook"), ("former-ci", "/gone")] {
        let url = format!("http://{}{path}", receiver.address);
        installation.text(&["webhook", "create", "--name", name, "--url", &url, "--type", "task"]);
    }
    let directory = installation.directory("game");
    let project = installation.project("Game", &directory);
    installation.agent("dev", "while [ ! -e go ]; do sleep 0.05; done; rm go; echo done");
    let link = installation.json(&["login", "--link"])["url"].as_str().unwrap().to_owned();
    let driver = Driver::start(&installation);
    let browser = driver.browser(&installation).await;

    browser.goto(&link).await.unwrap();
    browser.find(Locator::Css("button")).await.unwrap().click().await.unwrap();
    seen(&browser, "h1", "Feed").await;
    seen(&browser, "#live-state", "live").await;

    let first = format!("{}#1", installation.issue("First", &project, "dev"));
    seen(&browser, "ol.feed", &first).await;
    installation.until(&first, "running");
    let second = format!("{}#1", installation.issue("Second", &project, "dev"));
    installation.until(&second, "waiting_local_directory");
    seen(&browser, "ol.feed", &second).await;
    picture(&browser, "feed").await;

    let base = link.split("/sign-in").next().unwrap().to_owned();
    browser.goto(&format!("{base}/directories")).await.unwrap();
    seen(&browser, "article.card", &first).await;
    seen(&browser, "ol.queue", &second).await;
    picture(&browser, "directories").await;

    let id = installation.task(&second)["id"].as_str().unwrap().to_owned();
    browser.goto(&format!("{base}/tasks/{id}")).await.unwrap();
    seen(&browser, "h1", "parked").await;
    seen(&browser, ".cause", &first).await;
    picture(&browser, "task-parked").await;
    fs::write(directory.join("go"), "").unwrap();
    seen(&browser, "h1", "running").await;
    fs::write(directory.join("go"), "").unwrap();
    seen(&browser, "h1", "completed").await;
    seen(&browser, "#story", "completed").await;
    picture(&browser, "task").await;

    browser.goto(&format!("{base}/tasks")).await.unwrap();
    seen(&browser, "#over", &second).await;
    picture(&browser, "tasks").await;
    browser.goto(&format!("{base}/projects")).await.unwrap();
    seen(&browser, "article.card", "Game").await;
    picture(&browser, "projects").await;
    the_webhooks(&browser, &base).await;
    the_trail(&browser, &base, &second).await;
    browser.close().await.unwrap();
    eventually(Duration::from_secs(5), "the log's proof", || {
        installation.assert_verified();
        Ok(())
    });
}
