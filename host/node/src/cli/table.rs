//! Tables and JSON on stdout, for the commands that a person and a script both read.

use super::out::out;
use serde_json::Value;

/// Writes a value as JSON.
pub fn json(value: &Value) {
    out!("{value:#}");
}

/// Writes rows under a heading, in columns.
pub fn table(heading: &[&str], rows: &[Vec<String>]) {
    out!("{}", render(heading, rows).trim_end());
}

/// The text of one field of an answer, `-` when it is not there.
pub fn field(value: &Value, key: &str) -> String {
    match value.get(key) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Object(map)) => {
            let pairs: Vec<_> =
                map.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or("?"))).collect();
            if pairs.is_empty() { "-".to_owned() } else { pairs.join(",") }
        }
        Some(Value::Array(items)) => {
            let items: Vec<_> = items.iter().map(Value::to_string).collect();
            if items.is_empty() { "-".to_owned() } else { items.join(",") }
        }
        Some(other) => other.to_string(),
    }
}

/// The text of a table.
pub fn render(heading: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = heading.iter().map(|h| h.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut out = String::new();
        for (width, cell) in widths.iter().zip(cells) {
            out.push_str(cell);
            out.extend(std::iter::repeat_n(' ', width + 2 - cell.chars().count()));
        }
        text.push_str(out.trim_end());
        text.push('\n');
    };
    line(&mut heading.iter().copied());
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_line_up() {
        let rows = [vec!["1".to_owned(), "http://a".to_owned()], vec!["10".to_owned(), "-".to_owned()]];
        assert_eq!(render(&["ID", "ADDRESS"], &rows), "ID  ADDRESS\n1   http://a\n10  -\n");
    }

    #[test]
    fn fields_read_well() {
        let value = json!({"a": 1, "b": null, "c": {"zone": "x"}, "d": {}, "e": [1, 2], "f": "t"});
        let shown: Vec<_> = ["a", "b", "c", "d", "e", "f", "g"].map(|k| field(&value, k)).to_vec();
        assert_eq!(shown, ["1", "-", "zone=x", "-", "1,2", "t", "-"]);
    }
}
