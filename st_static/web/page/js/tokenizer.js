/** Texts to tokens, as Python's tokenizers do it, by Hugging Face's library. */

import {Tokenizer as LibraryTokenizer} from "../vendor/tokenizers/tokenizers.min.js";
import {TextPositions} from "./positions.js";

// Texts repeat their words: the tokens of so many are kept.
const REMEMBERED = 50_000;

/**
 * @typedef {object} Token
 * @property {string} token
 * @property {number} id Its row of the table.
 * @property {number | null} word Which word of the text it is of; null for a token by itself.
 * @property {import("./positions.js").Span | null} span Where it stands, if that is known.
 * @property {string} spelled Its word, as it was split off the normalised text.
 */

export class Tokenizer {
  /** @param {object} description The content of tokenizer.json. */
  constructor(description) {
    const library = new LibraryTokenizer(description, {unk_token: description.model.unk_token});
    const model = library.model;
    const tokensOf = remembering((word) => model([word]));
    this._library = library;
    this._ids = model.tokens_to_ids;
    this._unknown = model.unk_token_id ?? this._ids.get(description.model.unk_token);
    this._truncation = description.truncation;
    this._description = description;
    // Word by word: the library takes neighbouring words that a model does not know for one.
    library.model = (words) => words.map((word) => ({word, tokens: tokensOf(word)}));
  }

  /** The tokens, by their ids. */
  get vocabulary() {
    const tokens = [];
    for (const [token, id] of this._ids) tokens[id] = token;
    return tokens;
  }

  /**
   * The token ids of a text, without special tokens.
   * @param {string} text
   * @returns {number[]}
   */
  ids(text) {
    const tokens = this._parts(text).flatMap((part) => this._idsOf(part));
    return this._truncated(tokens);
  }

  /**
   * The tokens of a text with what each is of it.
   * @param {string} text
   * @returns {Token[]}
   */
  tokens(text) {
    const positions = new TextPositions(text, this._description, this._library.normalizer);
    const tokens = this._parts(text).flatMap((part, word) =>
      typeof part === "string"
        ? [this._addedToken(part, positions)]
        : this._tokensOf(part, word, positions),
    );
    return this._truncated(tokens);
  }

  /** Words with their tokens; an added token is a string. */
  _parts(text) {
    return this._library.encode_text(text);
  }

  _idsOf(part) {
    if (typeof part === "string") return [this._idOfAdded(part)];
    const ids = part.tokens.map((token) => this._ids.get(token) ?? this._unknown);
    return ids.filter((id) => id !== undefined);
  }

  /** The id of an added token, which may be spelled as the normaliser leaves it. */
  _idOfAdded(token) {
    return this._library.added_tokens_map.get(token).id;
  }

  _addedToken(token, positions) {
    const id = this._idOfAdded(token);
    return {token, id, word: null, span: positions.next(token), spelled: token};
  }

  _tokensOf({word, tokens}, place, positions) {
    const spans = positions.nextWord(word, tokens);
    const found = tokens.map((token, i) => ({
      token,
      id: this._ids.get(token) ?? this._unknown,
      word: place,
      span: spans[i],
      spelled: word,
    }));
    return found.filter(({id}) => id !== undefined);
  }

  _truncated(tokens) {
    const most = this._truncation?.max_length ?? tokens.length;
    if (tokens.length <= most) return tokens;
    return this._truncation.direction === "Left" ? tokens.slice(-most) : tokens.slice(0, most);
  }
}

/**
 * A function that is asked for each word once.
 * @param {(word: string) => string[]} ask
 */
function remembering(ask) {
  const known = new Map();
  return (word) => {
    if (known.size > REMEMBERED) known.clear();
    if (!known.has(word)) known.set(word, ask(word));
    return known.get(word);
  };
}
