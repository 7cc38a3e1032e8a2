"""A Django service with accounts of its own, as it stands before a gateway is put in front of it.

Accounts have a UUID, an email, a password in one of three forms or none (they came by Apple), and a subscription. Sign-in
gives a pair of JWTs. Everybody is served everything: what is for premium readers is only labelled.
"""
