//! The slow way, which says what is right: the message as a tree, each key's last value, transforms as JMESPath.

use jmespatch::Expression;

use crate::column::Struct;
use crate::compiled::Made;
use crate::error::{BadKind, Fail, Refused};
use crate::tree::Tree;
use crate::variable::Plain;

/// A message as JMESPath sees it, made when it is first asked for.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    text: &'a str,
    value: Option<Plain>,
}

impl<'a> Message<'a> {
    /// Of a text that is JSON.
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, value: None }
    }

    /// Evaluates an expression: the result's JSON text, or `None` for null.
    pub(crate) fn search(
        &mut self,
        property: &str,
        expression: &Expression<'static>,
    ) -> Result<Option<String>, Refused> {
        let failed = |what: String| Fail::text(BadKind::Transform, format!("transform '{property}': {what}"));
        if self.value.is_none() {
            self.value = Some(Plain::read(self.text).map_err(failed)?);
        }
        let value = self.value.as_ref().expect("made above");
        let result = expression.search(value).map_err(|error| failed(error.reason.to_string()))?;
        if result.is_null() {
            return Ok(None);
        }
        serde_json::to_string(&*result).map(Some).map_err(|error| failed(error.to_string()))
    }

    /// The same, as what a transform makes.
    pub(crate) fn search_made<'m>(
        &mut self,
        property: &str,
        expression: &Expression<'static>,
    ) -> Result<Made<'m>, Refused> {
        Ok(self.search(property, expression)?.map_or(Made::Null, Made::Json))
    }
}

/// The message with each key once, as text for another walk; `set` puts the transforms' values into it.
pub(crate) fn rewrite(
    text: &str,
    root: &Struct,
    set: impl FnOnce(&mut Tree) -> Result<(), Refused>,
) -> Result<String, Refused> {
    let mut tree = Tree::parse(text)?;
    if !matches!(tree, Tree::Object(_)) {
        return Err(Fail::bad(BadKind::NotAnObject, "the message is not a JSON object"));
    }
    tree.keep_last(root);
    set(&mut tree)?;
    let mut out = String::with_capacity(text.len());
    tree.write(&mut out);
    Ok(out)
}
