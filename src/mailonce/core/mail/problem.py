"""What can be wrong with a mail: a closed list of words, so that programs can act on them."""

from enum import StrEnum


class MailProblem(StrEnum):
    """One thing that is wrong with a mail, or that could not be read; never words of the sender."""

    # A mistake of ours: nothing of it was read, and the raw mail is all there is.
    UNREADABLE = "unreadable"
    # What is missing.
    NOT_A_MAIL = "not_a_mail"
    MISSING_FROM = "missing_from"
    MISSING_DATE = "missing_date"
    MISSING_MESSAGE_ID = "missing_message_id"
    # The header.
    BROKEN_HEADER = "broken_header"
    MISSING_BLANK_LINE = "missing_blank_line"
    HEADER_TOO_LARGE = "header_too_large"
    TOO_MANY_HEADERS = "too_many_headers"
    DUPLICATE_HEADER = "duplicate_header"
    RAW_HEADER_BYTES = "raw_header_bytes"
    BAD_ENCODED_WORD = "bad_encoded_word"
    CONTROL_CHARACTERS = "control_characters"
    BAD_ADDRESS = "bad_address"
    SEVERAL_FROM = "several_from"
    TOO_MANY_ADDRESSES = "too_many_addresses"
    BAD_DATE = "bad_date"
    TOO_MANY_REFERENCES = "too_many_references"
    # The structure.
    BAD_CONTENT_TYPE = "bad_content_type"
    MISSING_BOUNDARY = "missing_boundary"
    UNTERMINATED_MULTIPART = "unterminated_multipart"
    ENCODED_MULTIPART = "encoded_multipart"
    TOO_MANY_PARTS = "too_many_parts"
    TOO_DEEP = "too_deep"
    TOO_COMPLEX = "too_complex"
    PARTIAL_MESSAGE = "partial_message"
    BAD_LINE_ENDINGS = "bad_line_endings"
    # Content.
    UNKNOWN_TRANSFER_ENCODING = "unknown_transfer_encoding"
    BAD_BASE64 = "bad_base64"
    BAD_QUOTED_PRINTABLE = "bad_quoted_printable"
    BAD_UUENCODE = "bad_uuencode"
    UNKNOWN_CHARSET = "unknown_charset"
    WRONG_CHARSET = "wrong_charset"
    GUESSED_CHARSET = "guessed_charset"
    UNDECODABLE_BYTES = "undecodable_bytes"
    TOO_LARGE = "too_large"
    TEXT_TRUNCATED = "text_truncated"
    HTML_TRUNCATED = "html_truncated"
    # Attachments.
    MISSING_ATTACHMENT = "missing_attachment"
    UNSAFE_FILE_NAME = "unsafe_file_name"
    WRONG_TYPE = "wrong_type"
    BAD_TNEF = "bad_tnef"
    BAD_SIGNED_DATA = "bad_signed_data"
    # In the subject or a name: characters that cannot be seen, or that turn the text around.
    INVISIBLE_CHARACTERS = "invisible_characters"
