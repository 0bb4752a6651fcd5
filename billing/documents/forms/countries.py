"""The names of countries as a document prints them.

They are those of the Unicode CLDR 48, for every code of ISO 3166 with two letters.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache


def country_name(code: str, language: str) -> str:
    """In a language that documents have; the code where no country is known by it."""
    return _names(language).get(code, code)


@cache
def _names(language: str) -> Mapping[str, str]:
    listed = _GERMAN if language == "de" else _ENGLISH
    named = (entry.split(" ", 1) for entry in listed.split("; "))
    return dict(named)


_ENGLISH = (
    "AD Andorra; AE United Arab Emirates; AF Afghanistan; AG Antigua & Barbuda; AI Anguilla; AL "
    "Albania; AM Armenia; AO Angola; AQ Antarctica; AR Argentina; AS American Samoa; AT Austria; "
    "AU Australia; AW Aruba; AX Åland Islands; AZ Azerbaijan; BA Bosnia & Herzegovina; BB "
    "Barbados; BD Bangladesh; BE Belgium; BF Burkina Faso; BG Bulgaria; BH Bahrain; BI Burundi; "
    "BJ Benin; BL St. Barthélemy; BM Bermuda; BN Brunei; BO Bolivia; BQ Caribbean Netherlands; BR "
    "Brazil; BS Bahamas; BT Bhutan; BV Bouvet Island; BW Botswana; BY Belarus; BZ Belize; CA "
    "Canada; CC Cocos (Keeling) Islands; CD Congo - Kinshasa; CF Central African Republic; CG "
    "Congo - Brazzaville; CH Switzerland; CI Côte d'Ivoire; CK Cook Islands; CL Chile; CM "
    "Cameroon; CN China; CO Colombia; CR Costa Rica; CU Cuba; CV Cape Verde; CW Curaçao; CX "
    "Christmas Island; CY Cyprus; CZ Czechia; DE Germany; DJ Djibouti; DK Denmark; DM Dominica; "
    "DO Dominican Republic; DZ Algeria; EC Ecuador; EE Estonia; EG Egypt; EH Western Sahara; ER "
    "Eritrea; ES Spain; ET Ethiopia; FI Finland; FJ Fiji; FK Falkland Islands; FM Micronesia; FO "
    "Faroe Islands; FR France; GA Gabon; GB United Kingdom; GD Grenada; GE Georgia; GF French "
    "Guiana; GG Guernsey; GH Ghana; GI Gibraltar; GL Greenland; GM Gambia; GN Guinea; GP "
    "Guadeloupe; GQ Equatorial Guinea; GR Greece; GS South Georgia & South Sandwich Islands; GT "
    "Guatemala; GU Guam; GW Guinea-Bissau; GY Guyana; HK Hong Kong; HM Heard & McDonald Islands; "
    "HN Honduras; HR Croatia; HT Haiti; HU Hungary; ID Indonesia; IE Ireland; IL Israel; IM Isle "
    "of Man; IN India; IO British Indian Ocean Territory; IQ Iraq; IR Iran; IS Iceland; IT Italy; "
    "JE Jersey; JM Jamaica; JO Jordan; JP Japan; KE Kenya; KG Kyrgyzstan; KH Cambodia; KI "
    "Kiribati; KM Comoros; KN St. Kitts & Nevis; KP North Korea; KR South Korea; KW Kuwait; KY "
    "Cayman Islands; KZ Kazakhstan; LA Laos; LB Lebanon; LC St. Lucia; LI Liechtenstein; LK Sri "
    "Lanka; LR Liberia; LS Lesotho; LT Lithuania; LU Luxembourg; LV Latvia; LY Libya; MA Morocco; "
    "MC Monaco; MD Moldova; ME Montenegro; MF St. Martin; MG Madagascar; MH Marshall Islands; MK "
    "North Macedonia; ML Mali; MM Myanmar (Burma); MN Mongolia; MO Macao; MP Northern Mariana "
    "Islands; MQ Martinique; MR Mauritania; MS Montserrat; MT Malta; MU Mauritius; MV Maldives; "
    "MW Malawi; MX Mexico; MY Malaysia; MZ Mozambique; NA Namibia; NC New Caledonia; NE Niger; NF "
    "Norfolk Island; NG Nigeria; NI Nicaragua; NL Netherlands; NO Norway; NP Nepal; NR Nauru; NU "
    "Niue; NZ New Zealand; OM Oman; PA Panama; PE Peru; PF French Polynesia; PG Papua New Guinea; "
    "PH Philippines; PK Pakistan; PL Poland; PM St. Pierre & Miquelon; PN Pitcairn Islands; PR "
    "Puerto Rico; PS Palestine; PT Portugal; PW Palau; PY Paraguay; QA Qatar; RE Réunion; RO "
    "Romania; RS Serbia; RU Russia; RW Rwanda; SA Saudi Arabia; SB Solomon Islands; SC "
    "Seychelles; SD Sudan; SE Sweden; SG Singapore; SH St. Helena; SI Slovenia; SJ Svalbard & Jan "
    "Mayen; SK Slovakia; SL Sierra Leone; SM San Marino; SN Senegal; SO Somalia; SR Suriname; SS "
    "South Sudan; ST São Tomé & Príncipe; SV El Salvador; SX Sint Maarten; SY Syria; SZ Eswatini; "
    "TC Turks & Caicos Islands; TD Chad; TF French Southern Territories; TG Togo; TH Thailand; TJ "
    "Tajikistan; TK Tokelau; TL Timor-Leste; TM Turkmenistan; TN Tunisia; TO Tonga; TR Türkiye; "
    "TT Trinidad & Tobago; TV Tuvalu; TW Taiwan; TZ Tanzania; UA Ukraine; UG Uganda; UM U.S. "
    "Outlying Islands; US United States; UY Uruguay; UZ Uzbekistan; VA Vatican City; VC St. "
    "Vincent & Grenadines; VE Venezuela; VG British Virgin Islands; VI U.S. Virgin Islands; VN "
    "Vietnam; VU Vanuatu; WF Wallis & Futuna; WS Samoa; YE Yemen; YT Mayotte; ZA South Africa; ZM "
    "Zambia; ZW Zimbabwe"
)
_GERMAN = (
    "AD Andorra; AE Vereinigte Arabische Emirate; AF Afghanistan; AG Antigua und Barbuda; AI "
    "Anguilla; AL Albanien; AM Armenien; AO Angola; AQ Antarktis; AR Argentinien; AS "
    "Amerikanisch-Samoa; AT Österreich; AU Australien; AW Aruba; AX Ålandinseln; AZ "
    "Aserbaidschan; BA Bosnien und Herzegowina; BB Barbados; BD Bangladesch; BE Belgien; BF "
    "Burkina Faso; BG Bulgarien; BH Bahrain; BI Burundi; BJ Benin; BL St. Barthélemy; BM Bermuda; "
    "BN Brunei Darussalam; BO Bolivien; BQ Karibische Niederlande; BR Brasilien; BS Bahamas; BT "
    "Bhutan; BV Bouvetinsel; BW Botsuana; BY Belarus; BZ Belize; CA Kanada; CC Kokosinseln; CD "
    "Kongo-Kinshasa; CF Zentralafrikanische Republik; CG Kongo-Brazzaville; CH Schweiz; CI Côte "
    "d'Ivoire; CK Cookinseln; CL Chile; CM Kamerun; CN China; CO Kolumbien; CR Costa Rica; CU "
    "Kuba; CV Cabo Verde; CW Curaçao; CX Weihnachtsinsel; CY Zypern; CZ Tschechien; DE "
    "Deutschland; DJ Dschibuti; DK Dänemark; DM Dominica; DO Dominikanische Republik; DZ "
    "Algerien; EC Ecuador; EE Estland; EG Ägypten; EH Westsahara; ER Eritrea; ES Spanien; ET "
    "Äthiopien; FI Finnland; FJ Fidschi; FK Falklandinseln; FM Mikronesien; FO Färöer; FR "
    "Frankreich; GA Gabun; GB Vereinigtes Königreich; GD Grenada; GE Georgien; GF "
    "Französisch-Guayana; GG Guernsey; GH Ghana; GI Gibraltar; GL Grönland; GM Gambia; GN Guinea; "
    "GP Guadeloupe; GQ Äquatorialguinea; GR Griechenland; GS Südgeorgien und die Südlichen "
    "Sandwichinseln; GT Guatemala; GU Guam; GW Guinea-Bissau; GY Guyana; HK Hongkong; HM Heard "
    "und McDonaldinseln; HN Honduras; HR Kroatien; HT Haiti; HU Ungarn; ID Indonesien; IE Irland; "
    "IL Israel; IM Isle of Man; IN Indien; IO Britisches Territorium im Indischen Ozean; IQ Irak; "
    "IR Iran; IS Island; IT Italien; JE Jersey; JM Jamaika; JO Jordanien; JP Japan; KE Kenia; KG "
    "Kirgisistan; KH Kambodscha; KI Kiribati; KM Komoren; KN St. Kitts und Nevis; KP Nordkorea; "
    "KR Südkorea; KW Kuwait; KY Kaimaninseln; KZ Kasachstan; LA Laos; LB Libanon; LC St. Lucia; "
    "LI Liechtenstein; LK Sri Lanka; LR Liberia; LS Lesotho; LT Litauen; LU Luxemburg; LV "
    "Lettland; LY Libyen; MA Marokko; MC Monaco; MD Republik Moldau; ME Montenegro; MF St. "
    "Martin; MG Madagaskar; MH Marshallinseln; MK Nordmazedonien; ML Mali; MM Myanmar; MN "
    "Mongolei; MO Macau; MP Nördliche Marianen; MQ Martinique; MR Mauretanien; MS Montserrat; MT "
    "Malta; MU Mauritius; MV Malediven; MW Malawi; MX Mexiko; MY Malaysia; MZ Mosambik; NA "
    "Namibia; NC Neukaledonien; NE Niger; NF Norfolkinsel; NG Nigeria; NI Nicaragua; NL "
    "Niederlande; NO Norwegen; NP Nepal; NR Nauru; NU Niue; NZ Neuseeland; OM Oman; PA Panama; PE "
    "Peru; PF Französisch-Polynesien; PG Papua-Neuguinea; PH Philippinen; PK Pakistan; PL Polen; "
    "PM St. Pierre und Miquelon; PN Pitcairninseln; PR Puerto Rico; PS Palästina; PT Portugal; PW "
    "Palau; PY Paraguay; QA Katar; RE Réunion; RO Rumänien; RS Serbien; RU Russland; RW Ruanda; "
    "SA Saudi-Arabien; SB Salomonen; SC Seychellen; SD Sudan; SE Schweden; SG Singapur; SH St. "
    "Helena; SI Slowenien; SJ Spitzbergen und Jan Mayen; SK Slowakei; SL Sierra Leone; SM San "
    "Marino; SN Senegal; SO Somalia; SR Suriname; SS Südsudan; ST São Tomé und Príncipe; SV El "
    "Salvador; SX Sint Maarten; SY Syrien; SZ Eswatini; TC Turks- und Caicosinseln; TD Tschad; TF "
    "Französische Süd- und Antarktisgebiete; TG Togo; TH Thailand; TJ Tadschikistan; TK Tokelau; "
    "TL Timor-Leste; TM Turkmenistan; TN Tunesien; TO Tonga; TR Türkei; TT Trinidad und Tobago; "
    "TV Tuvalu; TW Taiwan; TZ Tansania; UA Ukraine; UG Uganda; UM Amerikanische Überseeinseln; US "
    "Vereinigte Staaten; UY Uruguay; UZ Usbekistan; VA Vatikanstadt; VC St. Vincent und die "
    "Grenadinen; VE Venezuela; VG Britische Jungferninseln; VI Amerikanische Jungferninseln; VN "
    "Vietnam; VU Vanuatu; WF Wallis und Futuna; WS Samoa; YE Jemen; YT Mayotte; ZA Südafrika; ZM "
    "Sambia; ZW Simbabwe"
)
