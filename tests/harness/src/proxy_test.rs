//! The proxies do what they are told: a test that plants a fault must know that it was planted.

use super::*;
use crate::Client;
use crate::s3::{Effect, Moto, Rule, StoreProxy};
use std::path::Path;

async fn echo() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("listen");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    port
}

/// Sends a byte and waits for it; false when it does not come back.
async fn comes_back(stream: &mut TcpStream) -> bool {
    let exchange = async {
        stream.write_all(b"x").await?;
        stream.read_exact(&mut [0]).await
    };
    matches!(tokio::time::timeout(Duration::from_millis(300), exchange).await, Ok(Ok(_)))
}

#[test]
fn a_node_is_cut_off_by_its_process_and_mended() {
    crate::run(async {
        let sources = Sources::default();
        sources.add(std::process::id(), 7);
        let proxy = PeerProxy::start(echo().await, sources).await?;
        let address = proxy.url().trim_start_matches("http://").to_owned();
        let mut stream = TcpStream::connect(&address).await?;
        assert!(comes_back(&mut stream).await);
        proxy.cut_from(8);
        assert!(comes_back(&mut stream).await, "another node was meant");
        proxy.cut_from(7);
        assert!(!comes_back(&mut stream).await, "the cut lets bytes through");
        let mut second = TcpStream::connect(&address).await?;
        assert!(!comes_back(&mut second).await, "the cut lets a new connection through");
        proxy.mend();
        // What was held back arrives after the cut, as over a mended cable.
        assert!(stream.read_exact(&mut [0]).await.is_ok());
        assert!(comes_back(&mut stream).await);
        proxy.reset_when_cut();
        proxy.cut_all();
        assert!(matches!(stream.read(&mut [0]).await, Ok(0) | Err(_)), "no end of the connection");
        Ok(())
    });
}

#[test]
fn store_faults_are_planted_before_or_after_the_effect() {
    crate::run(async {
        let exe = std::env::current_exe()?;
        let deps = exe.parent().unwrap_or(Path::new("."));
        let folder = std::env::temp_dir().join(format!("headwater-proxy-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let moto = Moto::start(deps, &folder).await?;
        let proxy = StoreProxy::start(moto.address()).await?;
        let base = format!("{}/headwater", proxy.environment()["AWS_ENDPOINT"]);
        let client = Client::new();
        let put = |name: &str, body: &'static str| {
            let url = format!("{base}/{name}");
            client.put(url).header("if-none-match", "*").header("authorization", AUTHORIZATION).body(body)
        };
        let get = |name: &str| client.get(format!("{base}/{name}")).header("authorization", AUTHORIZATION);

        put("a", "first").send().await?.expect(200)?;
        put("a", "second").send().await?.expect(412)?;
        assert_eq!(get("a").send().await?.expect(200)?.body, "first");

        proxy.plant(vec![Rule::puts(Effect::LoseAnswer).times(1)]);
        assert!(put("b", "stored").send().await.is_err(), "the answer was not lost");
        assert_eq!(get("b").send().await?.expect(200)?.body, "stored");
        put("c", "after the first").send().await?.expect(200)?;

        proxy.plant(vec![Rule::puts(Effect::AnswerInstead(503))]);
        put("d", "never").send().await?.expect(503)?;
        get("d").send().await?.expect(404)?;
        proxy.plant(vec![Rule::puts(Effect::AnswerAfter(409))]);
        put("e", "stored").send().await?.expect(409)?;
        proxy.mend();
        assert_eq!(get("e").send().await?.expect(200)?.body, "stored");
        assert_eq!(proxy.met(), 3);
        std::fs::remove_dir_all(&folder)?;
        Ok(())
    });
}

const AUTHORIZATION: &str = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, \
                             SignedHeaders=host, Signature=0";
