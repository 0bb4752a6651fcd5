"""English at the level of one phrase: articles, capitals and a full stop."""


def indefinite(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def sentence(clause: str) -> str:
    """`clause` with a capital letter and a final stop, unless it ends in one already."""
    return clause[0].upper() + clause[1:] + ("" if clause[-1] in ".!?" else ".")


def prose(*clauses: str) -> str:
    return " ".join(sentence(clause) for clause in clauses if clause)
