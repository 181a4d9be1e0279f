class ElectionType:
    PREFERRED: ElectionType
