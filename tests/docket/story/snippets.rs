//! The functions of docs/webhooks/verify.md and the libraries of Standard Webhooks, each in its own language, judge each vector of
//! docs/vectors.json. A language that is not here fails, unless DOCKET_TEST_WITHOUT names it, as tests/run does after it
//! has counted the missing one.

use docket_domain::signature;
use docket_rig::scratch::Folder;
use docket_tests::languages::{run, without};
use serde_json::Value;

use super::example::repository;

struct Language {
    /// The name of the language in the fence of the snippet.
    name: &'static str,
    /// The files of its program; `{snippet}` stands for the function of the document.
    files: &'static [(&'static str, &'static str)],
    /// The beginning of the call in these files, and of the call with [`NEXT`] as a second secret.
    either: (&'static str, &'static str),
    /// What compiles and runs it, in the folder of the files. The first word of each line is needed.
    run: &'static str,
}

/// The second secret of the programs that accept two.
const NEXT: &str = "next-secret";

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
        either: ("verify(secret, ", "verify_either(secret, b'next-secret', "),
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
        either: ("verify(secret, ", "verifyEither(secret, 'next-secret', "),
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
        either: ("verify(parts[0], ", "verifyEither(parts[0], []byte(`next-secret`), "),
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
        either: ("Webhook.verify(parts[0], ", "Rotation.verify(parts[0], \"next-secret\".getBytes(), "),
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
        either: (
            "Webhook.Verify(parts[0], ",
            "Rotation.Verify(parts[0], System.Text.Encoding.UTF8.GetBytes(\"next-secret\"), ",
        ),
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
        either: ("verify($secret, ", "verify_either($secret, 'next-secret', "),
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
        either: ("verify(secret, ", "verify_either(secret, 'next-secret', "),
        run: "ruby main.rb",
    },
];

fn document() -> String {
    std::fs::read_to_string(repository().join("docs/webhooks/verify.md")).expect("readable")
}

/// The one block of the document whose fence has this text, such as `python` or `python rotation`.
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

/// A line for a program: a secret, a body and a signature.
fn line([secret, body, signature]: [&str; 3]) -> String {
    let hexadecimal = |text: &str| if text.is_empty() { "-".to_owned() } else { hex::encode(text) };
    [secret, body, signature].map(hexadecimal).join(" ") + "\n"
}

/// Runs a program of each language. `file` returns the text of a file from the language and the file's template. `lines` are the
/// program's input, each with its name and whether the program must accept it.
fn judge(file: impl Fn(&Language, &str) -> String + Sync, lines: &[(String, String, bool)]) {
    assert!(lines.iter().any(|(.., valid)| *valid) && lines.iter().any(|(.., valid)| !valid));
    let input: String = lines.iter().map(|(_, line, _)| line.as_str()).collect();
    std::thread::scope(|scope| {
        for language in &LANGUAGES {
            let (input, file) = (&input, &file);
            scope.spawn(move || {
                if language.run.lines().filter_map(|line| line.split(' ').next()).any(without) {
                    return;
                }
                let folder = Folder::new("snippet");
                for (name, program) in language.files {
                    std::fs::write(folder.path().join(name), file(language, program)).expect("writable");
                }
                let printed = run(language.run, folder.path(), input);
                let judged: Vec<bool> = printed.lines().map(|line| line == "true").collect();
                assert_eq!(judged.len(), lines.len(), "{}: {printed}", language.name);
                for ((name, _, valid), judged) in lines.iter().zip(judged) {
                    assert_eq!(judged, *valid, "{}: {name}", language.name);
                }
            });
        }
    });
}

/// Each vector: its name, its line, and whether it is valid.
fn lines() -> Vec<(String, String, bool)> {
    let line = |vector: &Value| {
        let valid = vector["valid"].as_bool().expect("true or false");
        let parts = ["secret", "body", "signature"].map(|name| text(vector, name));
        (text(vector, "name").to_owned(), line(parts), valid)
    };
    vectors().iter().map(line).collect()
}

#[test]
fn each_snippet_judges_each_vector() {
    judge(|language, program| program.replace("{snippet}", &snippet(language.name)), &lines());
}

/// The first secret belongs to the vector. The second secret signs the body of each valid vector once more.
#[test]
fn each_snippet_for_a_rotation_accepts_either_secret() {
    let by_next = |vector: &Value| {
        let body = text(vector, "body");
        let signature = signature::sign(NEXT.as_bytes(), body.as_bytes());
        let name = format!("{}, by the second secret", text(vector, "name"));
        (name, line(["the first secret", body, &signature]), true)
    };
    let is_valid = |vector: &&Value| vector["valid"] == true;
    let lines: Vec<_> = lines().into_iter().chain(vectors().iter().filter(is_valid).map(by_next)).collect();
    let file = |language: &Language, program: &str| {
        let (one, two) = language.either;
        let both = snippet(language.name) + &snippet(&format!("{} rotation", language.name));
        program.replace(one, two).replace("{snippet}", &both)
    };
    assert!(LANGUAGES.iter().all(|language| {
        let calls = language.files.iter().filter(|(_, program)| program.contains(language.either.0));
        calls.count() == 1 && language.either.1.contains(NEXT)
    }));
    judge(file, &lines);
}

mod rust_either;
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
fn the_snippet_in_rust_for_a_rotation_accepts_either_secret() {
    let written = snippet("rust rotation").replace("fn ", "pub(super) fn ");
    assert!(include_str!("snippets/rust_either.rs").ends_with(&written));
    for vector in vectors() {
        let [secret, body, signature] =
            ["secret", "body", "signature"].map(|name| text(&vector, name).as_bytes());
        let signature = std::str::from_utf8(signature).expect("a text");
        let other = NEXT.as_bytes();
        for (first, second) in [(secret, other), (other, secret)] {
            let judged = rust_either::verify_either(first, second, body, signature);
            assert_eq!(Some(judged), vector["valid"].as_bool(), "{}", text(&vector, "name"));
        }
    }
}

#[test]
fn each_language_of_the_document_is_tried() {
    let document = document();
    let fences = document.lines().filter_map(|line| line.strip_prefix("```"));
    let named: Vec<&str> = fences.filter(|fence| !fence.is_empty() && !fence.starts_with("sh")).collect();
    assert_eq!(named.len(), 2 * (LANGUAGES.len() + 1), "with the language of this test");
    for name in LANGUAGES.iter().map(|language| language.name).chain(["rust"]) {
        let rotation = format!("{name} rotation");
        assert!(named.contains(&name) && named.contains(&&*rotation), "{name}: {named:?}");
    }
}
