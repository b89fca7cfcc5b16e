//! Splits a list in JSON into its objects, so that it may be larger than memory: the list at the
//! top, or one under a name. The objects themselves are not parsed here.

use serde::de::DeserializeOwned;

/// Largest object that is read; a pod of Kubernetes has some 10 KB.
const MAX_OBJECT_BYTES: usize = 16 << 20;

/// Splits text that is passed in line by line.
#[derive(Clone, Debug)]
pub(super) struct ObjectSplitter {
    /// Name of the list in an object at the top.
    under: &'static str,
    /// Number of open brackets and braces.
    depth: usize,
    /// Depth of the list's objects; `None` until the list is found.
    list: Option<usize>,
    /// True once the list has ended.
    is_over: bool,
    text: StringState,
    /// The last text at depth 1: a name, if a list follows.
    name: String,
    object: String,
    object_line: u64,
}

/// Position of the last byte relative to a JSON string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StringState {
    Outside,
    Inside,
    Escaped,
}

impl ObjectSplitter {
    pub(super) fn new(under: &'static str) -> Self {
        Self {
            under,
            depth: 0,
            list: None,
            is_over: false,
            text: StringState::Outside,
            name: String::new(),
            object: String::new(),
            object_line: 0,
        }
    }

    /// Reads a line, and passes every object that ends in it to `found`, with the number of the
    /// line on which it began.
    pub(super) fn read(
        &mut self,
        line: u64,
        text: &str,
        found: &mut dyn FnMut(u64, &str),
    ) -> Result<(), String> {
        let mut taken = 0;
        for (at, byte) in text.bytes().enumerate() {
            let before = self.depth;
            self.step(byte)?;
            let is_element = self.list == Some(before) && !self.is_over;
            if is_element && byte == b'{' && self.depth == before + 1 {
                self.object_line = line;
                taken = at;
            }
            let is_end = self.list == Some(self.depth) && byte == b'}' && before == self.depth + 1;
            if is_end && !self.is_over {
                self.object.push_str(&text[taken..=at]);
                found(self.object_line, &self.object);
                self.object.clear();
                taken = at + 1;
            }
        }
        if self.is_inside_object() {
            self.object.push_str(&text[taken..]);
            self.object.push('\n');
        }
        if self.object.len() > MAX_OBJECT_BYTES {
            Err(format!("an object of more than {} MiB", MAX_OBJECT_BYTES >> 20))
        } else {
            Ok(())
        }
    }

    /// Checks, after the last line, that the list was found and has ended.
    pub(super) fn finish(&self) -> Result<(), String> {
        match (self.list, self.depth) {
            (_, 1..) => Err("it ends in the middle of the list".to_owned()),
            (None, 0) => Err(format!(
                "it contains no list, neither at the top level nor as `{}`",
                self.under
            )),
            (Some(_), 0) => Ok(()),
        }
    }

    fn is_inside_object(&self) -> bool {
        !self.is_over && self.list.is_some_and(|list| self.depth > list)
    }

    fn step(&mut self, byte: u8) -> Result<(), String> {
        // 1. Strings, in which brackets do not count.
        match (self.text, byte) {
            (StringState::Escaped, _) => self.text = StringState::Inside,
            (StringState::Inside, b'\\') => self.text = StringState::Escaped,
            (StringState::Inside, b'"') => self.text = StringState::Outside,
            (StringState::Inside, _) if self.depth == 1 && self.list.is_none() => {
                self.name.push(char::from(byte))
            }
            (StringState::Inside, _) => {}
            (StringState::Outside, b'"') => {
                self.text = StringState::Inside;
                if self.depth == 1 {
                    self.name.clear();
                }
            }
            (StringState::Outside, b'{' | b'[' | b'}' | b']') => return self.bracket(byte),
            (StringState::Outside, b',') if self.depth == 1 => self.name.clear(),
            (StringState::Outside, _) => {}
        }
        Ok(())
    }

    fn bracket(&mut self, byte: u8) -> Result<(), String> {
        match byte {
            b'{' | b'[' => {
                self.depth += 1;
                let is_list =
                    byte == b'[' && (self.depth == 1 || self.depth == 2 && self.name == self.under);
                if is_list && self.list.is_none() {
                    self.list = Some(self.depth);
                }
            }
            _ => {
                if self.list == Some(self.depth) && byte == b']' {
                    self.is_over = true;
                }
                self.depth =
                    self.depth.checked_sub(1).ok_or("a bracket closes what was never opened")?;
            }
        }
        Ok(())
    }
}

/// Parses a JSON object; the error is a plain sentence.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let plain = |error: serde_json::Error| {
        let text = error.to_string();
        text.split(" at line ").next().unwrap_or(&text).to_owned()
    };
    serde_json::from_str(text).map_err(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> (Vec<(u64, String)>, Result<(), String>) {
        let mut objects = ObjectSplitter::new("items");
        let mut all = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let result = objects
                .read(line, text, &mut |line, object| all.push((line, object.replace('\n', ""))));
            if result.is_err() {
                return (all, result);
            }
        }
        let end = objects.finish();
        (all, end)
    }

    #[test]
    fn lists_at_the_top_and_under_a_name_are_cut_into_objects() {
        let two = vec![(1, "{\"a\":[{}]}".to_owned()), (1, "{\"b\":\"}\\\"\"}".to_owned())];
        assert_eq!(cut("[{\"a\":[{}]},{\"b\":\"}\\\"\"}]"), (two.clone(), Ok(())));
        let named = "{\"kind\":\"items\",\"errors\":[{}],\"items\":[{\"a\":[{}]},{\"b\":\"}\\\"\"}],\"meta\":{\"items\":[{}]}}";
        assert_eq!(cut(named), (two, Ok(())));
        let pretty = "[\n  {\n    \"é\": 1\n  },\n  {}\n]\n";
        assert_eq!(cut(pretty), (vec![(2, "{    \"é\": 1  }".into()), (5, "{}".into())], Ok(())));
    }

    #[test]
    fn what_is_no_list_says_so() {
        assert_eq!(
            cut("{\"a\":1}").1.unwrap_err(),
            "it contains no list, neither at the top level nor as `items`"
        );
        assert_eq!(cut("[{\"a\":").1.unwrap_err(), "it ends in the middle of the list");
        assert_eq!(cut("}").1.unwrap_err(), "a bracket closes what was never opened");
    }
}
