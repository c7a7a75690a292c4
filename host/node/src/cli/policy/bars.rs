//! Bars in the terminal, in eighths of a character.

const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A bar of up to `width` characters for `value` of `most`.
pub fn bar(value: f64, most: f64, width: usize) -> String {
    if value <= 0.0 || most <= 0.0 {
        return String::new();
    }
    let eighths = ((value / most).min(1.0) * width as f64 * 8.0).round() as usize;
    // What is there is seen, however little.
    let eighths = eighths.max(1);
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_proportional() {
        assert_eq!(bar(4.0, 4.0, 3), "███");
        assert_eq!(bar(2.0, 4.0, 3), "█▌");
        assert_eq!(bar(9.0, 4.0, 3), "███");
        assert_eq!(bar(0.001, 4.0, 3), "▏");
        assert_eq!((bar(0.0, 4.0, 3), bar(1.0, 0.0, 3)), (String::new(), String::new()));
    }
}
