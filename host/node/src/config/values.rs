//! How single values are written on the command line: durations, labels, addresses, routing.
//!
//! Pure parsing with messages for people; `mod.rs` puts the values together and checks them.

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use url::{Host, Url};

/// How requests reach the owner when the policy does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Routing {
    /// The client is sent there by a 307.
    #[default]
    Redirect,
    /// The node relays the request; clients see one address only.
    Forward,
}

/// Form of a session's write-ahead log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum WalForm {
    /// Append files where the store is a folder of a local file system, objects elsewhere.
    #[default]
    Files,
    /// One object for each group commit.
    Objects,
}

impl From<WalForm> for headwater_metadata::WalForm {
    fn from(form: WalForm) -> headwater_metadata::WalForm {
        match form {
            WalForm::Files => headwater_metadata::WalForm::Files,
            WalForm::Objects => headwater_metadata::WalForm::Objects,
        }
    }
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Parses `500ms`, `5s`, `10m`, `2h`, `1d`. A bare number is refused: seconds or milliseconds would
/// be a guess.
pub fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let number: u64 =
        number.parse().map_err(|_| format!("`{text}` is not a duration: write 500ms, 5s, 10m"))?;
    let seconds = match unit.trim() {
        "ms" => return Ok(Duration::from_millis(number)),
        "s" => Some(number),
        "m" => number.checked_mul(60),
        "h" => number.checked_mul(3_600),
        "d" => number.checked_mul(86_400),
        "" => return Err(format!("`{text}` has no unit: write {text}s or {text}ms")),
        other => return Err(format!("`{other}` is not a unit of time: use ms, s, m, h or d")),
    };
    seconds.map(Duration::from_secs).ok_or_else(|| format!("`{text}` is too long"))
}

/// Writes a duration as [`duration`] reads it.
pub fn show_duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    match ms {
        0 => "0s".to_owned(),
        _ if ms.is_multiple_of(60_000) => format!("{}m", ms / 60_000),
        _ if ms.is_multiple_of(1_000) => format!("{}s", ms / 1_000),
        _ => format!("{ms}ms"),
    }
}

/// Parses a label, `key=value`.
pub fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) =
        text.split_once('=').ok_or_else(|| format!("`{text}` is not a label: write key=value"))?;
    if key.is_empty() || text.chars().any(|c| c.is_control()) {
        return Err(format!("`{text}` is not a label: the key is empty or there is a control character"));
    }
    if text.len() > 512 {
        return Err("a label is longer than 512 bytes".to_owned());
    }
    Ok((key.to_owned(), value.to_owned()))
}

/// Parses an address to listen on: `127.0.0.1:4437`, `[::1]:4437`, `localhost:4437`, or `:4437` for
/// every address of the machine.
pub fn listen(text: &str) -> Result<SocketAddr, String> {
    let port = |port: &str| {
        port.parse::<u16>().map_err(|_| format!("`{text}` is not an address: `{port}` is not a port"))
    };
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Some(rest) = text.strip_prefix("localhost:") {
        return Ok(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port(rest)?));
    }
    match text.strip_prefix(':') {
        Some(rest) => Ok(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port(rest)?)),
        None => Err(format!(
            "`{text}` is not an address to listen on: write ADDRESS:PORT, for example 127.0.0.1:4437"
        )),
    }
}

/// Parses a base URL that others are told to use, and gives it back without a trailing slash.
///
/// Refused: what leads back to whoever reads it (a wildcard address, no host), and whatever could not
/// be a base (a path, a query, a user).
pub fn advertised(text: &str) -> Result<String, String> {
    let url = Url::parse(text).map_err(|e| format!("`{text}` is not a URL ({e}): write http://HOST:PORT"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("`{text}` is not an http URL: write http://HOST:PORT"));
    }
    let host = url.host().ok_or_else(|| format!("`{text}` has no host that clients could reach"))?;
    let unspecified = match &host {
        Host::Domain(name) => name.trim_end_matches('.').is_empty(),
        Host::Ipv4(ip) => ip.is_unspecified(),
        Host::Ipv6(ip) => ip.is_unspecified() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_unspecified()),
    };
    if unspecified {
        return Err(format!(
            "`{text}` is a wildcard address: whoever is sent there reaches his own machine. \
             Give the address or name under which clients reach this node"
        ));
    }
    if url.port() == Some(0) {
        return Err(format!("`{text}` has port 0, which nobody can reach"));
    }
    let extra = url.path() != "/" || url.query().is_some() || url.fragment().is_some();
    if extra || !url.username().is_empty() || url.password().is_some() {
        return Err(format!(
            "`{text}` must be a bare base URL, without path, query, fragment or user: http://HOST:PORT"
        ));
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// The advertised address of a listener that was given none: its own, when that is a concrete one.
pub fn advertise_listener(bound: SocketAddr, flag: &str) -> Result<String, String> {
    match bound.ip() {
        ip if is_wildcard(ip) => Err(format!(
            "listening on {bound} says nothing about how others reach this node: a wildcard address would \
             send every client to its own machine. Give the address with {flag} http://HOST:{}, or listen \
             on a concrete address",
            bound.port()
        )),
        _ => Ok(format!("http://{bound}")),
    }
}

/// Whether an address stands for every address of the machine.
pub fn is_wildcard(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_unspecified(),
        IpAddr::V6(ip) => ip.is_unspecified() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_unspecified()),
    }
}

/// Parses the address of a peer listener: a URL or `HOST:PORT`; gives `HOST:PORT`.
pub fn peer(text: &str) -> Result<String, String> {
    let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let base = advertised(&url)?;
    let authority = base.strip_prefix("http://").ok_or_else(|| format!("`{text}` is not an http URL"))?;
    let has_port = Url::parse(&base).is_ok_and(|u| u.port().is_some());
    Ok(if has_port { authority.to_owned() } else { format!("{authority}:80") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, ms) in [("500ms", 500), ("5s", 5_000), ("10m", 600_000), ("2h", 7_200_000), ("0s", 0)] {
            assert_eq!(duration(text).unwrap(), Duration::from_millis(ms), "{text}");
        }
        assert_eq!(duration("1d").unwrap(), Duration::from_secs(86_400));
        for text in
            ["", "5", "s", "5 parsecs", "-1s", "1.5s", "99999999999999999999s", "18446744073709551615h"]
        {
            assert!(duration(text).is_err(), "{text}");
        }
        for text in ["500ms", "5s", "10m", "0s", "120m", "90s"] {
            assert_eq!(show_duration(duration(text).unwrap()), text);
        }
    }

    #[test]
    fn labels() {
        assert_eq!(label("zone=a").unwrap(), ("zone".into(), "a".into()));
        assert_eq!(label("k=v=w").unwrap(), ("k".into(), "v=w".into()));
        assert_eq!(label("k=").unwrap(), ("k".into(), "".into()));
        for text in ["", "zone", "=a", "a\n=b"] {
            assert!(label(text).is_err(), "{text}");
        }
    }

    #[test]
    fn listen_addresses() {
        assert_eq!(listen("127.0.0.1:0").unwrap(), "127.0.0.1:0".parse().unwrap());
        assert_eq!(listen("localhost:1").unwrap(), "127.0.0.1:1".parse().unwrap());
        assert_eq!(listen(":4437").unwrap(), "[::]:4437".parse().unwrap());
        for text in ["", "4437", "host:4437", ":x", ":99999", "127.0.0.1"] {
            assert!(listen(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rte_03_no_wildcard_is_ever_advertised() {
        for text in [
            "http://0.0.0.0:4437",
            "http://[::]:4437",
            "http://[::ffff:0.0.0.0]:4437",
            "http://0:4437",
            "http://:4437",
            "http://",
            "http:///",
            "ftp://a:1",
            "a:4437",
            "http://a:0",
            "http://a:1/x",
            "http://a:1/?q",
            "http://u@a:1",
            "http://u:p@a:1",
            "http://a:1/#f",
            "http://./",
        ] {
            assert!(advertised(text).is_err(), "{text} was accepted: {:?}", advertised(text));
        }
        for (text, base) in [
            ("http://10.0.0.1:4437", "http://10.0.0.1:4437"),
            ("http://n1.example.com", "http://n1.example.com"),
            ("https://n1.example.com/", "https://n1.example.com"),
            ("http://[fe80::1]:4437/", "http://[fe80::1]:4437"),
        ] {
            assert_eq!(advertised(text).unwrap(), base);
        }
    }

    #[test]
    fn rte_03_a_wildcard_listener_needs_an_advertised_address() {
        for text in ["0.0.0.0:4437", "[::]:4437", ":4437", "[::ffff:0.0.0.0]:1"] {
            let refused = advertise_listener(listen(text).unwrap(), "--advertise").unwrap_err();
            assert!(refused.contains("--advertise"), "{refused}");
        }
        let bound = "127.0.0.1:40001".parse().unwrap();
        assert_eq!(advertise_listener(bound, "--advertise").unwrap(), "http://127.0.0.1:40001");
        let bound = "[::1]:40001".parse().unwrap();
        assert_eq!(advertise_listener(bound, "--advertise").unwrap(), "http://[::1]:40001");
    }

    #[test]
    fn peers() {
        assert_eq!(peer("http://n2:4637").unwrap(), "n2:4637");
        assert_eq!(peer("n2:4637").unwrap(), "n2:4637");
        assert_eq!(peer("10.0.0.2:4637").unwrap(), "10.0.0.2:4637");
        assert_eq!(peer("n2").unwrap(), "n2:80");
        assert!(peer("0.0.0.0:1").is_err());
        assert!(peer("https://n2:1").is_err());
    }
}
