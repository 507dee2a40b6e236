//! How lines of files are parsed and written.

use clap::Args;

/// The parts of a line that are key and value.
#[derive(Args, Clone, Debug)]
pub struct Layout {
    /// CSV: the separator of fields, one byte, or `tab` [default: ,]
    #[arg(long, value_parser = delimiter, value_name = "CHAR")]
    pub delimiter: Option<u8>,
    /// CSV: the column of the keys, by its name; by its number, from 1, with --no-header
    #[arg(long, value_name = "COLUMN")]
    pub key_column: Option<String>,
    /// CSV: the column of the values, likewise; other columns are left out then
    #[arg(long, value_name = "COLUMN")]
    pub value_column: Option<String>,
    /// CSV: the first line is no header
    #[arg(long)]
    pub no_header: bool,
    /// CSV: lines that begin with this byte are left out
    #[arg(long, value_parser = comment, value_name = "CHAR")]
    pub comment: Option<u8>,
    /// CSV: rows may have different numbers of columns; a value that is not there is empty
    #[arg(long)]
    pub ragged: bool,
    /// JSON lines: the value is the whole line, and its member FIELD, text or a number, the key
    #[arg(long, value_name = "FIELD")]
    pub key_field: Option<String>,
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [b'"' | b'\r' | b'\n'] => Err("quotes and line ends cannot separate fields".into()),
        [byte] => Ok(*byte),
        _ => Err("it must be one byte, or `tab`".into()),
    }
}

fn comment(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err("it must be one byte".into()),
    }
}
