//! Words for generated vocabularies: first common ones, so that ordinary text becomes a realistic number of tokens, then
//! invented ones without end.

/// Words a support desk, an agent log and the rows of a decision model are full of.
const COMMON: &str = "the of and to in is for that on with it this not are be as was at by from or an have you your we \
    our they will can has but if all one my do so no yes question choice score noul level statement hold holds does \
    true false option options which what how who when where why label text state answer customer order refund invoice \
    payment account delivery parcel package return cancel change address email phone number date time today tomorrow \
    week month year day hour minute late broken missing wrong damaged charged twice money back please help thank thanks \
    hello sorry urgent request message support ticket agent user system tool call error warning info debug failed \
    success retry timeout connection server host port file path name id type value role content data model input output \
    token price total amount currency product service plan subscription login password reset locked access denied \
    permission security spam phishing link click attachment shipping tracking status pending open closed high low medium \
    none other billing technical general sales complaint feedback review positive negative neutral because about after \
    before again more than there their would should could been just like get got make made need want know see use new \
    first last only also into over some any out up down now then here them his her she him who its had were said each \
    und der die das ist nicht ein eine mit von auf les des est une pour que dans el la los de en por con para il un e \
    non che di per";

/// Consonants and vowels of invented syllables.
const CONSONANTS: [&str; 20] =
    ["n", "r", "t", "s", "l", "d", "m", "k", "p", "b", "g", "f", "v", "h", "z", "st", "tr", "ch", "sh", "w"];
const VOWELS: [&str; 10] = ["a", "e", "i", "o", "u", "en", "er", "in", "or", "al"];

/// Words in a fixed order: the common ones with `prefix` before them and without it, then invented ones of two, three and
/// more syllables, mostly with the prefix.
pub(super) fn words(prefix: &str) -> impl Iterator<Item = String> + use<> {
    let prefix = prefix.to_owned();
    let common: Vec<&str> = COMMON.split_whitespace().collect();
    let with: Vec<String> = common.iter().map(|word| format!("{prefix}{word}")).collect();
    let without: Vec<String> = common.iter().map(|word| (*word).to_owned()).collect();
    let invented = (0u64..).map(move |i| {
        let word = invented(i);
        // Every fourth stands inside a word.
        if i % 4 == 3 { word } else { prefix.clone() + &word }
    });
    with.into_iter().chain(without).chain(invented)
}

/// Invented word number `i`: its digits in base 200 are syllables.
fn invented(i: u64) -> String {
    let n = (CONSONANTS.len() * VOWELS.len()) as u64;
    let mut rest = i;
    let mut word = String::new();
    loop {
        let syllable = (rest % n) as usize;
        word.push_str(CONSONANTS.get(syllable % CONSONANTS.len()).unwrap_or(&""));
        word.push_str(VOWELS.get(syllable / CONSONANTS.len()).unwrap_or(&""));
        rest /= n;
        if rest == 0 {
            return word;
        }
        rest -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invented_words_do_not_repeat_early() {
        let words: std::collections::HashSet<String> = (0..40_000).map(invented).collect();
        assert!(words.len() > 35_000, "{}", words.len());
        assert_eq!(invented(0), "na");
        assert_eq!(invented(200), "nana");
    }

    #[test]
    fn only_the_first_words_are_common() {
        let words: Vec<String> = words("_").take(3).collect();
        assert_eq!(words, ["_the", "_of", "_and"]);
    }
}
