//! The functions of docs/webhooks/verify.md and the libraries of Standard Webhooks, each in its own language, judge each vector of
//! docs/vectors.json. A language that is not here fails, unless DOCKET_TEST_WITHOUT names it, as tests/run does after it
//! has counted the missing one.

use std::fmt::Write;

use docket_rig::scratch::Folder;
use docket_tests::languages::{run, without};
use serde_json::Value;

use super::example::repository;

struct Language {
    /// As in the fence of its snippet.
    name: &'static str,
    /// The files of its program; `{snippet}` stands for the function of the document.
    files: &'static [(&'static str, &'static str)],
    /// What compiles and runs it, in the folder of the files. The first word of each line is needed.
    run: &'static str,
}

/// Each program reads lines of secret, body and signature in hexadecimal, `-` if empty, and prints `true` or `false`.
const LANGUAGES: [Language; 7] = [
    Language {
        name: "python",
        files: &[(
            "main.py",
            "{snippet}
import sys
for line in sys.stdin:
    secret, body, signature = (bytes.fromhex(part.strip('-')) for part in line.split())
    print(str(verify(secret, body, signature.decode())).lower())
",
        )],
        run: "python3 main.py",
    },
    Language {
        name: "javascript",
        files: &[(
            "main.js",
            r#"{snippet}
for (const line of require("node:fs").readFileSync(0, "utf8").trim().split("\n")) {
  const [secret, body, signature] = line.split(" ").map((part) => Buffer.from(part, "hex"));
  console.log(verify(secret, body, signature.toString()));
}
"#,
        )],
        run: "node main.js",
    },
    Language {
        name: "go",
        files: &[(
            "main.go",
            r#"package main
import ("bufio"; "fmt"; "os"; "strings")
{snippet}
func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var parts [3][]byte
		for at, part := range strings.Fields(lines.Text()) {
			parts[at], _ = hex.DecodeString(part)
		}
		fmt.Println(verify(parts[0], parts[1], string(parts[2])))
	}
}
"#,
        )],
        run: "go run main.go",
    },
    Language {
        name: "java",
        files: &[
            ("Webhook.java", "{snippet}"),
            (
                "Main.java",
                r#"import java.io.*;
import java.util.HexFormat;
class Main {
    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            byte[][] parts = new byte[3][];
            for (int at = 0; at < 3; at++) parts[at] = HexFormat.of().parseHex(line.split(" ")[at].replace("-", ""));
            System.out.println(Webhook.verify(parts[0], parts[1], new String(parts[2], "UTF-8")));
        }
    }
}
"#,
            ),
        ],
        run: "javac Main.java Webhook.java\njava -cp . Main",
    },
    Language {
        name: "csharp",
        files: &[
            ("Webhook.cs", "{snippet}"),
            (
                "Main.cs",
                r#"using System;
using System.Linq;
class Program {
    static byte[] Bytes(string part) {
        return part == "-" ? new byte[0] : Enumerable.Range(0, part.Length / 2).Select(at => Convert.ToByte(part.Substring(2 * at, 2), 16)).ToArray();
    }
    static void Main() {
        for (string line; (line = Console.ReadLine()) != null; ) {
            var parts = line.Split(' ').Select(Bytes).ToArray();
            Console.WriteLine(Webhook.Verify(parts[0], parts[1], System.Text.Encoding.UTF8.GetString(parts[2])) ? "true" : "false");
        }
    }
}
"#,
            ),
        ],
        run: "mcs -out:main.exe Main.cs Webhook.cs\nmono main.exe",
    },
    Language {
        name: "php",
        files: &[(
            "main.php",
            r#"<?php
{snippet}
foreach (file('php://stdin', FILE_IGNORE_NEW_LINES) as $line) {
    [$secret, $body, $signature] = array_map(fn ($part) => hex2bin(trim($part, '-')), explode(' ', $line));
    echo verify($secret, $body, $signature) ? "true\n" : "false\n";
}
"#,
        )],
        run: "php main.php",
    },
    Language {
        name: "ruby",
        files: &[(
            "main.rb",
            r#"{snippet}
STDIN.each_line do |line|
  secret, body, signature = line.split.map { |part| [part.delete("-")].pack("H*") }
  puts verify(secret, body, signature)
end
"#,
        )],
        run: "ruby main.rb",
    },
];

fn document() -> String {
    std::fs::read_to_string(repository().join("docs/webhooks/verify.md")).expect("readable")
}

/// The one block of this language in the document.
fn snippet(language: &str) -> String {
    let (document, fence) = (document(), format!("```{language}\n"));
    let mut blocks = document.split(&fence).skip(1);
    let block = blocks.next().unwrap_or_else(|| panic!("docs/webhooks/verify.md has no {language}"));
    assert!(blocks.next().is_none(), "docs/webhooks/verify.md has two blocks of {language}");
    block.split("```").next().expect("closed").to_owned()
}

fn vectors() -> Vec<Value> {
    let text = std::fs::read_to_string(repository().join("docs/vectors.json")).expect("readable");
    let vectors: Value = serde_json::from_str(&text).expect("JSON");
    vectors["vectors"].as_array().expect("a list").clone()
}

fn text<'a>(vector: &'a Value, field: &str) -> &'a str {
    vector[field].as_str().expect("a text")
}

#[test]
fn each_snippet_judges_each_vector() {
    let vectors = vectors();
    let hexadecimal = |text: &str| if text.is_empty() { "-".to_owned() } else { hex::encode(text) };
    let mut input = String::new();
    let mut expected = Vec::new();
    for vector in &vectors {
        let [secret, body, signature] =
            ["secret", "body", "signature"].map(|name| hexadecimal(text(vector, name)));
        writeln!(input, "{secret} {body} {signature}").expect("a String takes all");
        expected.push((text(vector, "name"), vector["valid"].as_bool().expect("true or false")));
    }
    assert!(expected.iter().any(|(_, valid)| *valid) && expected.iter().any(|(_, valid)| !valid));
    std::thread::scope(|scope| {
        for language in &LANGUAGES {
            let (input, expected) = (&input, &expected);
            scope.spawn(move || {
                if language.run.lines().filter_map(|line| line.split(' ').next()).any(without) {
                    return;
                }
                let folder = Folder::new("snippet");
                for (name, program) in language.files {
                    let program = program.replace("{snippet}", &snippet(language.name));
                    std::fs::write(folder.path().join(name), program).expect("writable");
                }
                let printed = run(language.run, folder.path(), input);
                let judged: Vec<bool> = printed.lines().map(|line| line == "true").collect();
                assert_eq!(judged.len(), expected.len(), "{}: {printed}", language.name);
                for ((name, valid), judged) in expected.iter().zip(judged) {
                    assert_eq!(judged, *valid, "{}: {name}", language.name);
                }
            });
        }
    });
}

mod rust_snippet;

#[test]
fn the_snippet_in_rust_judges_each_vector() {
    assert!(
        include_str!("snippets/rust_snippet.rs")
            .ends_with(&snippet("rust").replace("\nfn ", "\npub(super) fn "))
    );
    for vector in vectors() {
        let [secret, body, signature] = ["secret", "body", "signature"].map(|name| text(&vector, name));
        let judged = rust_snippet::verify(secret.as_bytes(), body.as_bytes(), signature);
        assert_eq!(Some(judged), vector["valid"].as_bool(), "{}", text(&vector, "name"));
    }
}

#[test]
fn each_language_of_the_document_is_tried() {
    let document = document();
    let fences = document.lines().filter_map(|line| line.strip_prefix("```"));
    let mut named: Vec<&str> = fences.filter(|fence| !fence.is_empty() && !fence.starts_with("sh")).collect();
    named.retain(|name| *name != "rust");
    assert_eq!(named.len(), LANGUAGES.len());
    assert!(LANGUAGES.iter().all(|language| named.contains(&language.name)), "{named:?}");
}
