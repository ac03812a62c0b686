//! Values of a TOML document with their places, so that each error names file, line, key and what to type.

use std::borrow::Cow;
use std::path::Path;

use toml::Spanned;
use toml::de::DeTable;
use toml::de::DeValue;

use crate::error::PlanError;

/// So many letters may differ between a key and what is typed for it.
const MOST_SLIPS: usize = 3;

/// The text that is read.
#[derive(Clone, Copy)]
pub(super) struct Document<'text> {
    pub(super) text: &'text str,
    pub(super) path: &'text Path,
}

impl Document<'_> {
    pub(super) fn error(
        &self,
        offset: usize,
        key: &str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> PlanError {
        let before = self.text.as_bytes().get(..offset);
        let before = before.unwrap_or(self.text.as_bytes());
        PlanError::Invalid {
            path: self.path.to_owned(),
            line: 1 + before.iter().filter(|&&byte| byte == b'\n').count(),
            key: key.to_owned(),
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}

/// So many letters of a word may differ from what was meant: of a short one few.
fn slips(word: &str) -> usize {
    (word.len() / 3).min(MOST_SLIPS)
}

/// The word that is likely meant, among those that there are.
pub(super) fn meant<'word>(typed: &str, words: &[&'word str]) -> Option<&'word str> {
    let distances = words
        .iter()
        .map(|word| (strsim::damerau_levenshtein(word, typed), *word));
    let (distance, word) = distances.min()?;
    (distance <= slips(typed)).then_some(word)
}

/// A table, and which of its keys were asked for.
pub(super) struct Table<'text> {
    document: Document<'text>,
    /// With those around it; empty: the document itself.
    name: String,
    offset: usize,
    entries: &'text DeTable<'text>,
    known: Vec<&'static str>,
}

impl<'text> Table<'text> {
    pub(super) fn of_document(
        document: Document<'text>,
        entries: &'text Spanned<DeTable<'text>>,
    ) -> Self {
        Self {
            document,
            name: String::new(),
            offset: 0,
            entries: entries.get_ref(),
            known: Vec::new(),
        }
    }

    /// How a key of it is told.
    pub(super) fn key(&self, name: &str) -> String {
        if self.name.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.name)
        }
    }

    /// A value, if it is there.
    pub(super) fn get(&mut self, name: &'static str) -> Option<Value<'text>> {
        self.known.push(name);
        let value = self.entries.get(name)?;
        Some(Value {
            document: self.document,
            key: self.key(name),
            offset: value.span().start,
            value: value.get_ref(),
        })
    }

    /// A value that must be there; `example` is what to type.
    pub(super) fn need(
        &mut self,
        name: &'static str,
        example: &str,
    ) -> Result<Value<'text>, PlanError> {
        if let Some(value) = self.get(name) {
            return Ok(value);
        }
        Err(match self.misspelt(name) {
            Some(key) => self.document.error(
                key.span().start,
                &self.key(key.get_ref()),
                "there is no such key",
                format!("did you mean {name}? It is missing; type: {example}"),
            ),
            None => self.error(&self.key(name), "is missing", format!("type: {example}")),
        })
    }

    /// A key that nobody has asked for yet, and that may be meant for this one. Of a short name little may differ.
    fn misspelt(&self, name: &str) -> Option<&Spanned<Cow<'text, str>>> {
        let most = slips(name);
        let distance =
            |key: &&Spanned<Cow<'_, str>>| strsim::damerau_levenshtein(key.get_ref(), name);
        let unknown = self.entries.keys();
        let unknown = unknown.filter(|key| !self.known.contains(&key.get_ref().as_ref()));
        let nearest = unknown.min_by_key(distance)?;
        (distance(&nearest) <= most).then_some(nearest)
    }

    /// An error of the table as a whole.
    pub(super) fn error(
        &self,
        key: &str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> PlanError {
        self.document.error(self.offset, key, what, remedy)
    }

    /// To be called last: keys that nobody asked for are mistakes.
    pub(super) fn finish(self) -> Result<(), PlanError> {
        let unknown = self
            .entries
            .keys()
            .filter(|key| !self.known.contains(&key.get_ref().as_ref()));
        let Some(key) = unknown.min_by_key(|key| key.span().start) else {
            return Ok(());
        };
        let name = key.get_ref().as_ref();
        let remedy = match meant(name, &self.known) {
            Some(known) => format!("did you mean {known}? Else remove it"),
            None => format!("remove it; there are: {}", self.known.join(", ")),
        };
        let what = "there is no such key";
        Err(self
            .document
            .error(key.span().start, &self.key(name), what, remedy))
    }
}

/// A value and where it is.
pub(super) struct Value<'text> {
    document: Document<'text>,
    pub(super) key: String,
    offset: usize,
    value: &'text DeValue<'text>,
}

impl<'text> Value<'text> {
    pub(super) fn error(&self, what: impl Into<String>, remedy: impl Into<String>) -> PlanError {
        self.document.error(self.offset, &self.key, what, remedy)
    }

    /// The key without those around it.
    fn last_key(&self) -> &str {
        self.key.rsplit('.').next().unwrap_or(&self.key)
    }

    fn wrong_type(&self, wanted: &str, example: &str) -> PlanError {
        let found = match self.value {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.error(
            format!("is {found}, not {wanted}"),
            format!("type: {}", self.line_of(example)),
        )
    }

    /// The line to type: a table of the document has a heading.
    fn line_of(&self, example: &str) -> String {
        match (self.key.as_str(), example) {
            ("rule" | "curve", _) => format!("[[{}]] above each of them", self.key),
            ("program" | "memory" | "io", "{ ... }") => format!("[{}]", self.key),
            _ => format!("{} = {example}", self.last_key()),
        }
    }

    /// A number as it may stand there.
    fn example(&self) -> &'static str {
        match self.last_key() {
            "line" => "120",
            "objects" => "4",
            "module_offset" => "0x41b2",
            "function_offset" => "0x1b2",
            _ => "1048576",
        }
    }

    pub(super) fn text(&self) -> Result<String, PlanError> {
        match self.value {
            DeValue::String(text) => Ok(Cow::clone(text).into_owned()),
            _ => Err(self.wrong_type("a text", "\"...\"")),
        }
    }

    /// A whole number from 0 to the most that TOML promises to hold.
    pub(super) fn number(&self) -> Result<u64, PlanError> {
        let DeValue::Integer(number) = self.value else {
            return Err(self.wrong_type("a whole number", self.example()));
        };
        let value = i128::from_str_radix(number.as_str(), number.radix());
        let Some(value) = value.ok().filter(|&value| value <= i128::from(i64::MAX)) else {
            return Err(self.error("is too large", format!("type at most {}", i64::MAX)));
        };
        u64::try_from(value).map_err(|_| {
            self.error(
                format!("{value} is negative"),
                format!("type: {} = {}", self.last_key(), self.example()),
            )
        })
    }

    /// A number above 0, where there need not be one.
    pub(super) fn size(&self) -> Result<u64, PlanError> {
        self.above_zero("leave it out, or type")
    }

    /// The same where there must be one.
    pub(super) fn needed_size(&self) -> Result<u64, PlanError> {
        self.above_zero("type")
    }

    fn above_zero(&self, remedy: &str) -> Result<u64, PlanError> {
        match self.number()? {
            0 => Err(self.error(
                "must be more than 0",
                format!("{remedy}: {} = {}", self.last_key(), self.example()),
            )),
            size => Ok(size),
        }
    }

    /// `true` or `false`.
    pub(super) fn truth(&self) -> Result<bool, PlanError> {
        match self.value {
            DeValue::Boolean(truth) => Ok(*truth),
            _ => Err(self.wrong_type("true or false", "true")),
        }
    }

    /// A finite number above 0, with or without a fraction.
    pub(super) fn ratio(&self) -> Result<f64, PlanError> {
        let value = match self.value {
            DeValue::Float(float) => float.as_str().parse().ok(),
            DeValue::Integer(_) => Some(self.number()? as f64),
            _ => return Err(self.wrong_type("a number", "1.5")),
        };
        value
            .filter(|ratio: &f64| ratio.is_finite() && *ratio > 0.0)
            .ok_or_else(|| {
                self.error(
                    "is no ratio above 0",
                    format!("type: {} = 1.5", self.last_key()),
                )
            })
    }

    pub(super) fn list(&self) -> Result<Vec<Value<'text>>, PlanError> {
        let DeValue::Array(values) = self.value else {
            return Err(self.wrong_type("a list", "[...]"));
        };
        let values = values.iter().map(|value| Value {
            document: self.document,
            key: self.key.clone(),
            offset: value.span().start,
            value: value.get_ref(),
        });
        Ok(values.collect())
    }

    pub(super) fn table(&self) -> Result<Table<'text>, PlanError> {
        match self.value {
            DeValue::Table(entries) => Ok(Table {
                document: self.document,
                name: self.key.clone(),
                offset: self.offset,
                entries,
                known: Vec::new(),
            }),
            _ => Err(self.wrong_type("a table", "{ ... }")),
        }
    }
}
