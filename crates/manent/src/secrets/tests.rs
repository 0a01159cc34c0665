//! What would leak, and what would be hidden from a reader without need.
//!
//! Nothing here is a key: whatever looks like one is put together when the test runs, so that no scanner of this
//! repository takes it for one either.

use manent_sim::Rng;

use super::{BLOCKS, REDACTED, SHAPES, find_shapes, may_have_shapes, redact, secrets, values};

/// Letters and digits without meaning.
fn noise(length: usize) -> String {
    let signs = b"aZ3kQ9xB7mT1wR5yL2pV8sD4fH6jG0nCuE";
    (0..length).map(|at| char::from(signs[(at * 7 + at / signs.len()) % signs.len()])).collect()
}

fn hex(length: usize) -> String {
    (0..length).map(|at| char::from(b"0a1b2c3d4e5f6789"[(at * 5 + at / 16) % 16])).collect()
}

/// Credentials with a form of their own.
fn planted() -> Vec<String> {
    let of = |start: &str, length: usize| format!("{start}{}", noise(length));
    let upper = noise(16).to_uppercase();
    vec![
        of("sk-", 48),
        of("sk-proj-", 80),
        of("sk-ant-api03-", 93) + "-AA",
        of("sk-or-v1-", 64),
        of("gsk_", 52),
        of("hf_", 34),
        of("ghp_", 36),
        of("gho_", 36),
        of("ghs_", 36),
        of("github_pat_", 22) + "_" + &noise(59),
        of("glpat-", 20),
        of("npm_", 36),
        of("pypi-AgEIcHlwaS5vcmc", 120),
        format!("AKIA{upper}"),
        format!("ASIA{upper}"),
        of("AIza", 35),
        of("ya29.a0", 120),
        format!("xoxb-1234567890-1234567890-{}", noise(24)),
        of("xoxp-", 50),
        of("SG.", 22) + "." + &noise(43),
        of("sk_live_", 24),
        of("rk_live_", 24),
        of("shpat_", 0) + &hex(32),
        of("123456789:AA", 33),
        format!("https://hooks.slack.com/services/T00000000/B00000000/{}", noise(24)),
        format!("https://discord.com/api/webhooks/123456789012345678/{}", noise(68)),
        format!("eyJ{}.eyJ{}.{}", noise(33), noise(60), noise(43)),
    ]
}

#[test]
fn keys_of_known_forms_are_found_wherever_they_stand() {
    for key in planted() {
        let bare = key.trim_start_matches("https://");
        for text in [
            key.clone(),
            format!("the key is {key}."),
            format!("\"{key}\""),
            format!("naïve 数据 {key} 🦀"),
            format!("line\\n{key}\\nline"),
            format!("line\n{key}\nline"),
            format!("x={key},y=1"),
            format!("({key})"),
        ] {
            let redacted = redact(&text);
            assert!(!redacted.contains(&bare[bare.len() - 8..]), "{text} became {redacted}");
            assert!(redacted.contains(REDACTED), "{text}");
        }
        let text = format!("before {key} after");
        let shown = redact(&text);
        assert!(shown.starts_with("before ") && shown.ends_with(" after"), "nothing else is hidden: {shown}");
    }
}

#[test]
fn private_keys_are_hidden_with_all_of_their_lines() {
    for kind in ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", "PGP "] {
        let block = if kind == "PGP " { " BLOCK" } else { "" };
        let (begin, end) = (
            format!("-----BEGIN {kind}PRIVATE KEY{block}-----"),
            format!("-----END {kind}PRIVATE KEY{block}-----"),
        );
        let lines = vec![noise(64); 40].join("\n") + "\n" + &noise(20) + "==";
        let whole = format!("see:\n{begin}\n{lines}\n{end}\nthen");
        assert_eq!(redact(&whole), "see:\n[secret]\nthen");
        assert_eq!(redact(&whole.replace('\n', "\\n")), "see:\\n[secret]\\nthen", "escaped as in JSON");
        assert_eq!(redact(&whole.replace('\n', "\r\n  ")), "see:\r\n  [secret]\r\n  then", "indented");
        let cut =
            format!("{begin}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{}\n\n{}", hex(32), noise(64));
        assert_eq!(redact(&cut), REDACTED, "its end is cut off");
    }
    let public = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----", noise(64));
    assert_eq!(redact(&public), public);
}

#[test]
fn what_is_assigned_to_a_name_of_a_secret_is_hidden() {
    let aws = noise(40);
    let cases = [
        ("password=hunter2", "hunter2"),
        ("PASSWORD=tr0ub4dor&3,x;y # note", "tr0ub4dor&3,x;y"),
        ("user=me;password=hunter2;host=db", "hunter2"),
        ("{user: me, password: hunter2, x: 1}", "hunter2"),
        ("password: \"tr0ub4dor&3\"", "tr0ub4dor&3"),
        ("\"password\": \"s3cr3t-value\",", "s3cr3t-value"),
        ("{\\\"api_key\\\": \\\"abc123def456\\\"}", "abc123def456"),
        ("API_KEY_PROD=abc123def456", "abc123def456"),
        ("api-key => 'abc123def456'", "abc123def456"),
        ("client_secret := `abc123def456`", "abc123def456"),
        ("my password is hunter2!", "hunter2"),
        ("passwd = correcthorse1", "correcthorse1"),
        ("PASSWORD=correct-horse-battery-staple", "correct-horse-battery-staple"),
        ("passphrase: \"correct horse battery staple\"", "correct horse battery staple"),
        ("pwd=пароль12", "пароль12"),
        ("password=\"a\\\"b7cdefg\" x", "a\\\"b7cdefg"),
        ("<password>hunter22</password>", "hunter22"),
        ("deploy --token abc123def456 --force", "abc123def456"),
        ("mysql --password=hunter2 -u me", "hunter2"),
        ("?user=me&access_token=abc123def456&x=1", "abc123def456"),
        ("Authorization: Bearer abcdefghijkl", "abcdefghijkl"),
        ("authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("curl -H \"Authorization: token abc123def456\"", "abc123def456"),
        ("sent as bearer abcdefgh12345678.", "abcdefgh12345678"),
        ("postgres://me:hunter2@db.local:5432/x", "hunter2"),
        ("redis://:p@ss@host", "p@ss"),
        ("AccountKey=abcdef12345678==;EndpointSuffix=core", "abcdef12345678=="),
        ("password=123456", "123456"),
    ];
    for (text, secret) in cases {
        let found: Vec<&str> = secrets(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, [secret], "{text}");
    }
    let text = format!("aws_secret_access_key = {aws}");
    assert_eq!(redact(&text), "aws_secret_access_key = [secret]");
    let long = format!("token=\"{}\"", noise(5000));
    assert_eq!(redact(&long), "token=\"[secret]\"", "all of it, not what was looked at");
}

/// Text that hides what nobody would steal is of no use.
#[test]
fn ordinary_text_is_left_alone() {
    let ordinary = [
        "The password is required, and the token is invalid; ask for a new secret.",
        "Forgot your password? We never store passwords. A token bucket has tokens: 4096 of them.",
        "max_tokens: 4096, tokenizer: cl100k_base, token_count = 128000, prompt_tokens=1234567890",
        "id 550e8400-e29b-41d4-a716-446655440000, commit 6492ac9b1e0f4c3d2a5b6c7d8e9f0a1b2c3d4e5f",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "fn password(&self) -> Option<String> { self.password.clone() }",
        "let token = tokens[0]; let secret = load_secret2(path)?; password = ask(\"Password: \")",
        "pub struct Login { password: String, token: Option<u64>, secret: [u8; 32] }",
        "password: ${DB_PASSWORD}, token: $TOKEN, secret=<your-secret>, api_key=YOUR_API_KEY_1",
        "password = os.environ['PASSWORD'], token = process.env.TOKEN2, secret: {{ vault.secret1 }}",
        "sk-learn is no key, nor is sk-some-very-long-class-name-of-a-page, nor a task-force-of-many-people",
        "token::Kind::Ident2 and std::token::Spacing1",
        "const PASSWORD: WIN32_ERROR, token: super::super::Win32::Foundation::Handle",
        "private_key: x25519_make_key_pair",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx is how it looks; so does AKIA0123456789ABCDEFGHIJ",
        "https://example.com:8080/path?x=1#a@b and user@example.com, git@github.com:a/b.git",
        "https://user:$PASSWORD@example.com and ssh://git@host:22/x",
        "Bearer tokens are sent in a header. The bearer of this letter is known.",
        "10:AAbc 12:30 eyJ is how base64 of an object begins: eyJhbGciOiJIUzI1NiJ9",
        "primary_key: user_id_1, cache_key = \"v1:users:42\", key=abc123def456, keyboard: k2-pro-max-2024",
        "数据库的密码很重要。パスワードは秘密です。",
    ];
    for text in ordinary {
        let found: Vec<&str> = secrets(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, [""; 0], "{text}");
    }
    let image = format!("data:image/png;base64,{}", vec![noise(61); 2000].join("/+"));
    assert_eq!(redact(&image), image);
    assert_eq!(redact(""), "");
}

/// The sources of this crate speak of keys, tokens and secrets all the time.
#[test]
fn our_own_sources_are_left_alone() {
    for text in [
        include_str!("../meta.rs"),
        include_str!("../store.rs"),
        include_str!("../turn.rs"),
        include_str!("../reader.rs"),
    ] {
        let found: Vec<&str> = secrets(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, [""; 0]);
    }
}

#[test]
fn ranges_are_in_order_and_redacting_twice_changes_nothing() {
    let line =
        |key: &String| format!("é password2={key} token: \"{key}\" 数 https://u:{key}@host Bearer {key}\n");
    let text: String = planted().iter().map(line).collect();
    let found = secrets(&text);
    assert!(found.len() >= 3 * planted().len());
    for pair in found.windows(2) {
        assert!(pair[0].end < pair[1].start, "{:?}", &text[pair[0].start..pair[1].end]);
    }
    let once = redact(&text).into_owned();
    assert_eq!(redact(&once), once);
    for key in planted() {
        assert!(!once.contains(&key[key.len() - 8..]), "{key}");
    }
}

/// A tool may have printed megabytes of anything; whoever searches must not wait for it.
#[test]
fn hostile_text_takes_no_time_to_speak_of() {
    let size = 1 << 18;
    let starts = [
        "ask-",
        "sk-",
        "eyJ",
        "eyJa.",
        "password=",
        "token:",
        "password=\"",
        "'token'='",
        "://",
        "://a:",
        "a:b@",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n",
        "bearer ",
        "authorization: bearer ",
        "xoxb-",
        "1234567890:AA",
        "secret ",
        "--token ",
        "é",
        "\\\"",
        "SG.aaaaaaaaaaaaaaaaaaaaaa.",
        "hooks.slack.com/services/",
        "password=abc123",
        "A1",
    ];
    for start in starts {
        let text = start.repeat(size / start.len());
        assert!(secrets(&text).len() <= text.len());
    }
}

/// Texts are passed over that hold no beginning of a credential: none that holds one is.
#[test]
fn what_an_expression_would_find_is_never_passed_over() {
    let mut rng = Rng::new(7);
    let names = "password PassWd passphrase db_pass -pass pwd mnemonic seed seed_phrase seed-phrase secret SECRET \
        token Token credential api_key apikey API-KEY access private secret_key encryption signing account auth \
        master key Key key2 _prod -test _99 authorization Authorization bearer Bearer basic --token --api-key --";
    let signs = [
        "=", ":", " := ", "=>", "==", ">", " is ", " IS: ", "\t", " ", "  ", "\"", "'", "`", "\\\"", "\\n",
        "\n", "",
    ];
    let values =
        ["hunter2hunter", "\"a b c d e f g h\"", "12345678", "tr0ub4dor&3", "f00d.b4r", "é", "(", "word"];
    let mut pieces: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
    pieces.extend(signs.iter().chain(&signs).chain(&signs).chain(&values).map(|piece| (*piece).to_owned()));
    pieces.extend(planted());
    let (mut some, mut none) = (0, 0);
    for _ in 0..30_000 {
        let text: String =
            (0..rng.range(1..=9)).map(|_| pieces[rng.below(pieces.len() as u64) as usize].as_str()).collect();
        let mut found = Vec::new();
        values::find_values(&text, values::HEADS.as_ref().unwrap(), &mut found);
        assert!(found.is_empty() || values::may_have_values(&text), "a value: {text:?}");
        let values = found.len();
        find_shapes(&text, SHAPES.as_ref().unwrap(), &mut found);
        assert!(found.len() == values || may_have_shapes(&text), "a shape: {text:?}");
        found.extend(BLOCKS.as_ref().unwrap().find_iter(&text).map(|block| block.range()));
        some += u32::from(!found.is_empty());
        none += u32::from(!values::may_have_values(&text) && !may_have_shapes(&text));
        let all = secrets(&text);
        for one in found {
            assert!(all.iter().any(|kept| kept.start <= one.start && one.end <= kept.end), "{text:?}");
        }
    }
    assert!(some > 3_000 && none > 3_000, "{some} with one, {none} without");
}

#[test]
fn what_only_its_neighbour_tells_is_found() {
    let key = format!("AKIA{}", noise(16).to_uppercase());
    let secret = format!("{}/K7+{}", noise(16), noise(20));
    assert_eq!(secret.len(), 40);
    for text in [
        format!("AWS {key} secret {secret}"),
        format!("{key}\n{secret}\n"),
        format!("aws_access_key_id = {key}\nregion = eu\naws_it = {secret} # x"),
    ] {
        let clean = redact(&text);
        assert!(!clean.contains(&secret) && !clean.contains(&key), "{clean}");
    }
    let hash = hex(40);
    assert!(redact(&format!("{key} at commit {hash}")).contains(&hash), "a hash has no capitals");
    let long = noise(60);
    assert!(redact(&format!("{key} {long}")).contains(&long), "nor is it longer");
    assert!(redact(&format!("see {secret}")).contains(&secret), "alone it is any word");
    let word = "sup3rs3cret";
    for login in [
        format!("curl -u admin:{word} https://x.example/y"),
        format!("curl -s --user 'admin:{word}' x"),
        format!("$ curl -X POST -u \"admin:{word}\" x"),
    ] {
        let clean = redact(&login);
        assert!(!clean.contains(word) && clean.contains("admin"), "{clean}");
    }
    for same in
        ["curl -u admin x", "curl -u \"$USER:$PASS\" x", "docker run -u 1000:1000 x", "curl x\nps -u a:bcd"]
    {
        assert_eq!(redact(same), same);
    }
}
