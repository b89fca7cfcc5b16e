//! Cuts a list in JSON into its objects, so that it may be larger than memory: the list at the top,
//! or one under a name. What stands in an object is not looked at here.

use serde::de::DeserializeOwned;

/// Largest object that is read; a pod of Kubernetes has some 10 KB.
const MAX_OBJECT_BYTES: usize = 16 << 20;

/// Cuts text that is handed in line by line.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    /// Name of the list in an object at the top.
    under: &'static str,
    /// Open brackets and braces.
    depth: usize,
    /// The depth at which the list's objects lie, once it was found.
    list: Option<usize>,
    /// What the list was, once it has ended.
    is_over: bool,
    text: Text,
    /// The last text at depth 1: a name, if a list follows.
    name: String,
    object: String,
    object_line: u64,
}

/// Where in a text the last byte stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    Outside,
    Inside,
    Escaped,
}

impl Objects {
    pub(super) fn new(under: &'static str) -> Self {
        Self {
            under,
            depth: 0,
            list: None,
            is_over: false,
            text: Text::Outside,
            name: String::new(),
            object: String::new(),
            object_line: 0,
        }
    }

    /// Takes a line, and hands every object that ends in it to `found`, with the line on which it
    /// began.
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
        match self.object.len() > MAX_OBJECT_BYTES {
            true => Err(format!("an object of more than {} MiB", MAX_OBJECT_BYTES >> 20)),
            false => Ok(()),
        }
    }

    /// After the last line.
    pub(super) fn finish(&self) -> Result<(), String> {
        match (self.list, self.depth) {
            (_, 1..) => Err("it ends in the middle of the list".to_owned()),
            (None, 0) => {
                Err(format!("there is no list in it, neither at the top nor as `{}`", self.under))
            }
            (Some(_), 0) => Ok(()),
        }
    }

    fn is_inside_object(&self) -> bool {
        !self.is_over && self.list.is_some_and(|list| self.depth > list)
    }

    fn step(&mut self, byte: u8) -> Result<(), String> {
        // 1. Texts, in which no bracket counts.
        match (self.text, byte) {
            (Text::Escaped, _) => self.text = Text::Inside,
            (Text::Inside, b'\\') => self.text = Text::Escaped,
            (Text::Inside, b'"') => self.text = Text::Outside,
            (Text::Inside, _) if self.depth == 1 && self.list.is_none() => {
                self.name.push(char::from(byte))
            }
            (Text::Inside, _) => {}
            (Text::Outside, b'"') => {
                self.text = Text::Inside;
                if self.depth == 1 {
                    self.name.clear();
                }
            }
            (Text::Outside, b'{' | b'[' | b'}' | b']') => return self.bracket(byte),
            (Text::Outside, b',') if self.depth == 1 => self.name.clear(),
            (Text::Outside, _) => {}
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

/// An object as a value.
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
        let mut objects = Objects::new("items");
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
            "there is no list in it, neither at the top nor as `items`"
        );
        assert_eq!(cut("[{\"a\":").1.unwrap_err(), "it ends in the middle of the list");
        assert_eq!(cut("}").1.unwrap_err(), "a bracket closes what was never opened");
    }
}
