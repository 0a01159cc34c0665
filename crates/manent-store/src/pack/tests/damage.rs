//! Files that are damaged, cut, foreign or made to harm: what is read is what was packed, or NULs, or
//! refused.

use super::*;

/// The table of three frames, and the frame with its checksum.
const TABLE_BYTES: usize = 12 + 8 + 3 * 8 + 9;
/// The lengths of what the three small frames hold.
const PIECES: [usize; 3] = [300, 90, 400];

/// Three small frames, and what they hold.
fn small() -> (Vec<u8>, Vec<u8>) {
    let mut random = Random(7);
    let pieces = PIECES.map(|bytes| random.lines(bytes, 40));
    let bytes = packed_in_pieces(&[&pieces[0], &pieces[1], &pieces[2]]);
    (bytes, pieces.concat())
}

/// The bytes as which a damaged frame of this length reads.
fn nuls(length: usize) -> Vec<u8> {
    let mut line = vec![0; length];
    line[length - 1] = b'\n';
    line
}

/// Reads everything: each frame is as it was, or a line of NULs, or behind the end of a file whose end is
/// known to be lost. Gives how many bytes are not as they were.
fn check_reads(bytes: &[u8], plain: &[u8]) -> usize {
    let Ok(file) = open(bytes) else { return plain.len() };
    let mut read = &all_of(&file).unwrap()[..];
    if file.table.ending == TableEnd::Lost {
        read = read.strip_suffix(&[0]).expect("a NUL says that the end is lost");
        assert!(file.refuse_lost_end().is_err());
    } else {
        assert_eq!(read.len(), plain.len(), "a wrong length was believed");
    }
    let (mut plain, mut lost) = (plain, plain.len() - read.len());
    for length in PIECES {
        if read.is_empty() {
            break;
        }
        let (frame, expected);
        (frame, read) = read.split_at(length);
        (expected, plain) = plain.split_at(length);
        if frame != expected {
            assert_eq!(frame, nuls(length), "wrong bytes");
            lost += length;
        }
    }
    assert!(read.is_empty());
    lost
}

fn kind_of(bytes: &[u8]) -> ErrorKind {
    open(bytes).expect_err("it is refused").kind()
}

#[test]
fn no_flipped_bit_changes_what_is_read() {
    let (bytes, plain) = small();
    assert_eq!(check_reads(&bytes, &plain), 0);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let lost = check_reads(&flipped, &plain);
        let in_a_frame = bit / 8 < bytes.len() - TABLE_BYTES;
        assert!(lost < plain.len() && (lost == 0 || in_a_frame), "bit {bit} hides {lost} bytes");
    }
}

#[test]
fn no_flipped_bit_in_the_head_of_a_large_frame_or_in_the_table_changes_what_is_read() {
    let plain = Random(8).lines(1_500_000, 1_000);
    let bytes = packed(&plain);
    let table = open(&bytes).unwrap().table;
    let last = table.packed(table.frames() - 1);
    for at in table.packed(0).take(20).chain(table.packed(1).take(20)).chain(last.end..bytes.len() as u64) {
        let mut flipped = bytes.clone();
        flipped[at as usize] ^= 1 << (at % 8);
        let file = open(&flipped).unwrap();
        let read = all_of(&file).unwrap();
        assert_eq!(read.len() - plain.len(), usize::from(file.table.ending == TableEnd::Lost), "byte {at}");
        for frame in 0..table.frames() {
            let place = table.plain(frame).start as usize..table.plain(frame).end as usize;
            let hurt = table.packed(frame).contains(&at);
            let (read, expected) = (&read[place.clone()], &plain[place.clone()]);
            assert!(read == expected || hurt && read == nuls(place.len()), "byte {at}, frame {frame}");
        }
    }
}

#[test]
fn damage_in_one_frame_hides_no_other() {
    let (bytes, plain) = small();
    let table = open(&bytes).unwrap().table;
    let place = table.packed(1);
    for harm in [place.start..place.start + 4, place.start..place.end, place.end - 4..place.end] {
        let mut harmed = bytes.clone();
        harmed[harm.start as usize..harm.end as usize].fill(0);
        assert_eq!(check_reads(&harmed, &plain), 90);
        let target = Memory::default();
        let unpacked = unpack_into(boxed(&harmed), &target).unwrap_err();
        let compared =
            compare(boxed(&harmed), &Memory::of(&plain), plain.len() as u64, &mut |_| {}).unwrap_err();
        for error in [unpacked, compared] {
            assert_eq!(error.kind(), ErrorKind::InvalidData);
            assert!(error.to_string().contains("bytes 300 to 390 of the plain file"), "{error}");
        }
        // Without the checksum of the table it is the same: it leads past the damage.
        let table_at = bytes.len() - TABLE_BYTES;
        harmed[table_at + 8] ^= 1;
        assert_eq!(check_reads(&harmed, &plain), 90);
        harmed.drain(table_at..table_at + 12);
        assert_eq!(check_reads(&harmed, &plain), 90);
    }
}

#[test]
fn of_a_file_that_was_cut_the_whole_frames_are_read_and_the_end_is_known_to_be_lost() {
    let (bytes, plain) = small();
    let table = open(&bytes).unwrap().table;
    for len in 0..bytes.len() {
        let cut = &bytes[..len];
        let frames = (0..3).filter(|frame| table.packed(*frame).end <= len as u64).count();
        if frames == 0 {
            assert_eq!(kind_of(cut), ErrorKind::InvalidData, "cut at {len}");
            continue;
        }
        let file = open(cut).unwrap();
        assert_eq!(file.table.ending, TableEnd::Lost, "cut at {len}");
        let there: usize = PIECES[..frames].iter().sum();
        assert_eq!(check_reads(cut, &plain), plain.len() - there);
        let error = unpack_into(boxed(cut), &Memory::default()).unwrap_err().to_string();
        assert!(error.contains(&format!("only the first {there} bytes")), "{error}");
        assert!(compare(boxed(cut), &Memory::of(&plain[..there]), there as u64, &mut |_| {}).is_err());
    }
    for more in [&b"\n"[..], &bytes] {
        let more = [&bytes, more].concat();
        assert_eq!(check_reads(&more, &plain), 0);
        assert_eq!(open(&more).unwrap().table.ending, TableEnd::Lost);
    }
    let nothing = packed(b"");
    assert_eq!(nothing.len(), 29, "a table without frames, and its checksum");
    for len in 0..nothing.len() {
        assert_eq!(kind_of(&nothing[..len]), ErrorKind::InvalidData, "cut at {len}");
    }
}

#[test]
fn a_frame_that_is_missing_is_not_overlooked_because_the_table_is_damaged_too() {
    let (bytes, _) = small();
    let table = open(&bytes).unwrap().table;
    for frame in 0..3 {
        let mut harmed = bytes.clone();
        harmed.drain(table.packed(frame).start as usize..table.packed(frame).end as usize);
        let at = harmed.len() - 20;
        harmed[at] ^= 1;
        assert_eq!(open(&harmed).unwrap().table.ending, TableEnd::Lost);
    }
}

#[test]
fn what_other_tools_put_between_frames_is_passed_over() {
    let (bytes, plain) = small();
    let table = open(&bytes).unwrap().table;
    let skipped = [&0x184D_2A53_u32.to_le_bytes()[..], &5_u32.to_le_bytes(), b"hello"].concat();
    let empty = fast_compressor().unwrap().compress(b"").unwrap();
    let mut other = Vec::new();
    for frame in 0..3 {
        other.extend(&skipped);
        other.extend(&bytes[table.packed(frame).start as usize..table.packed(frame).end as usize]);
    }
    other.extend(empty);
    assert_eq!(check_reads(&other, &plain), 0);
    assert_eq!(open(&other).unwrap().table.ending, TableEnd::Lost);
    // With the table of such a tool, which has a checksum for each frame.
    other.extend(0x184D_2A5E_u32.to_le_bytes());
    other.extend((4_u32 * 12 + 9).to_le_bytes());
    other.extend([7; 4 * 12]);
    other.extend(4_u32.to_le_bytes());
    other.push(0x80);
    other.extend(0x8F92_EAB1_u32.to_le_bytes());
    assert_eq!(check_reads(&other, &plain), 0);
    assert_eq!(open(&other).unwrap().table.ending, TableEnd::Whole);
}

#[test]
fn any_number_of_frames_is_bounded() {
    let frame = fast_compressor().unwrap().compress(b"\n").unwrap();
    let file = open(&frame.repeat(FRAMES_MAX + 1)).unwrap();
    assert_eq!((file.table.frames(), file.table.ending), (FRAMES_MAX, TableEnd::Lost));
    assert_eq!(file.state().unwrap().len, FRAMES_MAX as u64 + 1);
}

#[test]
fn other_files_are_refused_with_a_word_about_what_to_do() {
    let stock = zstd::stream::encode_all(&b"a line\n"[..], 3).unwrap();
    let bomb = fast_compressor().unwrap().compress(&vec![0; FRAME_BYTES_MAX + 1]).unwrap();
    for bytes in [&b""[..], b"{}\n", &[0; 5_000], &stock, &bomb] {
        let error = open(bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert!(error.to_string().contains("`zstd -d`"), "{error}");
    }
}

/// A file of these frames with a table that says whatever it is told to.
fn claiming(frames: &[u8], sizes: &[(u32, u32)], count: u32, descriptor: u8) -> Vec<u8> {
    let mut bytes = frames.to_vec();
    bytes.extend(0x184D_2A5E_u32.to_le_bytes());
    bytes.extend((sizes.len() as u32 * 8 + 9).to_le_bytes());
    for (packed, plain) in sizes {
        bytes.extend(packed.to_le_bytes());
        bytes.extend(plain.to_le_bytes());
    }
    bytes.extend(count.to_le_bytes());
    bytes.push(descriptor);
    bytes.extend(0x8F92_EAB1_u32.to_le_bytes());
    bytes
}

/// Sizes of the frames, packed and plain; how many there are; the descriptor.
type Claim<'a> = (&'a [(u32, u32)], u32, u8);

#[test]
fn no_claim_of_a_table_is_believed() {
    let frame = fast_compressor().unwrap().compress(b"a line\n").unwrap();
    let n = frame.len() as u32;
    assert_eq!(all_of(&open(&claiming(&frame, &[(n, 7)], 1, 0)).unwrap()).unwrap(), b"a line\n");
    let big = FRAME_BYTES_MAX as u32 + 1;
    let bad: &[Claim<'_>] = &[
        (&[(n, 7)], 0, 0),
        (&[(n, 7)], 2, 0),
        (&[(n, 7)], u32::MAX, 0),
        (&[(n, 7)], FRAMES_MAX as u32 + 1, 0),
        (&[(n, 7)], 1, 0x80),
        (&[(n, 7)], 1, 1),
        (&[(n, 0)], 1, 0),
        (&[(n, 6)], 1, 0),
        (&[(n, 8)], 1, 0),
        (&[(n, big)], 1, 0),
        (&[(n, u32::MAX)], 1, 0),
        (&[(n - 1, 7)], 1, 0),
        (&[(n + 1, 7)], 1, 0),
        (&[(u32::MAX, 7)], 1, 0),
        (&[(0, 7), (n, 7)], 2, 0),
        (&[(n, 7), (n, 7)], 2, 0),
        (&[(u32::MAX, 7), (n + 1, 7)], 2, 0),
        (&[], 0, 0),
    ];
    for (sizes, count, descriptor) in bad {
        let bytes = claiming(&frame, sizes, *count, *descriptor);
        // The frame says it all; a table for one frame is a sign that no other is missing.
        let whole = sizes.len() == 1 && *descriptor != 0x80;
        let expected = if whole { &b"a line\n"[..] } else { b"a line\n\0" };
        assert_eq!(all_of(&open(&bytes).unwrap()).unwrap(), expected, "{sizes:?} {count} {descriptor}");
    }
    // More frames than anything of ours has, all of them there: refused before the table is held.
    let many = claiming(&[], &vec![(1, 1); FRAMES_MAX + 1], FRAMES_MAX as u32 + 1, 0);
    assert_eq!(kind_of(&many), ErrorKind::InvalidData);
}

#[test]
fn a_bomb_is_stopped_at_the_length_that_the_table_says() {
    // 64 MiB in a few kilobytes, said plainly; then in a frame that keeps quiet about it; then in one that
    // lies.
    let zeros = vec![0; 64 << 20];
    let honest = fast_compressor().unwrap().compress(&zeros).unwrap();
    let n = honest.len() as u32;
    assert_eq!(kind_of(&claiming(&honest, &[(n, 1 << 20)], 1, 0)), ErrorKind::InvalidData);

    let mut quiet = Compressor::new(3).unwrap();
    quiet.set_parameter(CParameter::ContentSizeFlag(false)).unwrap();
    quiet.set_parameter(CParameter::ChecksumFlag(true)).unwrap();
    let quiet = quiet.compress(&zeros).unwrap();
    let n = quiet.len() as u32;
    assert_eq!(kind_of(&claiming(&quiet, &[(n, 1 << 20)], 1, 0)), ErrorKind::InvalidData);

    // Magic, flags, one byte for the window, four for the size.
    let mut lying = honest;
    assert_eq!(lying[4] >> 5, 0b100, "a window, and a size of four bytes");
    lying[6..10].copy_from_slice(&(1_u32 << 20).to_le_bytes());
    let file = open(&claiming(&lying, &[(lying.len() as u32, 1 << 20)], 1, 0)).unwrap();
    assert!(all_of(&file).unwrap() == nuls(1 << 20));

    // Two frames where the table sees one.
    let one = fast_compressor().unwrap().compress(b"a line\n").unwrap();
    let two = [&one[..], &one].concat();
    let file = open(&claiming(&two, &[(two.len() as u32, 7)], 1, 0)).unwrap();
    assert_eq!(all_of(&file).unwrap(), nuls(7));
}

#[test]
fn a_frame_without_a_checksum_is_refused() {
    let frame = Compressor::new(3).unwrap().compress(b"a line\n").unwrap();
    let bytes = claiming(&frame, &[(frame.len() as u32, 7)], 1, 0);
    assert_eq!(all_of(&open(&bytes).unwrap()).unwrap(), nuls(7));
    assert_eq!(unpack_into(boxed(&bytes), &Memory::default()).unwrap_err().kind(), ErrorKind::InvalidData);
}

#[test]
fn an_error_of_the_disk_is_no_damage() {
    let (bytes, _) = small();
    let under_it = Memory::of(&bytes);
    let file = Packed::open(Box::new(under_it.clone())).unwrap();
    under_it.failed.store(true, Ordering::Relaxed);
    assert_eq!(all_of(&file).unwrap_err().kind(), ErrorKind::Other);
    assert_eq!(Packed::open(Box::new(under_it.clone())).unwrap_err().kind(), ErrorKind::Other);
    under_it.failed.store(false, Ordering::Relaxed);
    assert!(all_of(&file).is_ok(), "nothing of it was kept");
}

#[test]
fn files_that_shrink_meanwhile_are_an_error() {
    let plain = Random(9).lines(2_500_000, 1_000);
    let bytes = packed(&plain);
    for len in [0, 10, bytes.len() as u64 / 2] {
        let under_it = Memory::of(&bytes);
        let file = Packed::open(Box::new(under_it.clone())).unwrap();
        under_it.set_len(len).unwrap();
        assert_eq!(all_of(&file).unwrap_err().kind(), ErrorKind::UnexpectedEof, "cut to {len}");
    }
    let source = Memory::of(&plain);
    let cut = |_| source.set_len(1_500_000).unwrap();
    let error = pack(&source, plain.len() as u64, &Memory::default(), &mut { cut }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn random_harm_is_nuls_or_nothing() {
    let (bytes, plain) = small();
    let mut random = Random(10);
    for _ in 0..3_000 {
        let mut harmed = bytes.clone();
        // Frames only: several hits in the table could agree with each other.
        let frames = bytes.len() - TABLE_BYTES;
        for _ in 0..=random.below(6) {
            let (at, length) = (random.below(frames), random.below(30));
            let end = (at + length).min(frames);
            harmed[at..end].fill_with(|| random.below(256) as u8);
        }
        check_reads(&harmed, &plain);
    }
    for _ in 0..3_000 {
        let mut harmed = bytes.clone();
        for _ in 0..=random.below(4) {
            let at = harmed.len() - 1 - random.below(45);
            harmed[at] = random.below(256) as u8;
        }
        // Whatever is believed here, nothing panics.
        let _ = open(&harmed).and_then(|file| all_of(&file));
    }
}
